// Package store is the bucket: named objects with conditional writes, over several kinds of object storage.
//
// Owns: the rules that every driver keeps, and the drivers. Never does: it knows nothing of workspaces. Called by: cowfs.
// Privileges: none of its own. Concurrency: every method of a Store may be called from any number of goroutines, and
// several agents may use one bucket.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// What a caller may do next depends on which of these an error is. Everything else is a failure of the storage, after
// which a write may or may not have happened.
var (
	// ErrNotFound: there is no such object. Final.
	ErrNotFound = errors.New("object not found")
	// ErrPrecondition: the object exists (PutIfAbsent), or is not at the version named (PutIfMatch, DeleteIfMatch). Final;
	// after a retry it may be the echo of one's own earlier try: read back before calling it a conflict.
	ErrPrecondition = errors.New("object was changed by someone else")
	// ErrKey: the key breaks the rules of CheckKey. Final.
	ErrKey = errors.New("key not allowed")
	// ErrDenied: the credentials do not suffice. Final until they change.
	ErrDenied = errors.New("access denied by the object storage")
)

// Version names one state of one object. Opaque; two writes never give the same version to different bytes.
type Version string

// Info describes an object.
type Info struct {
	Key     string
	Size    int64
	Version Version // empty in a listing, where a driver need not know it
}

// Store is a bucket. Every driver guarantees, and package storetest checks:
//   - durable: when a Put returns nil, the object survives a crash of the node;
//   - whole or not at all: a reader sees one write's bytes, never a part or a mix, and a failed Put leaves the old object;
//   - read after write: a Get, Stat or condition that starts after a Put returned sees it (a List may be late);
//   - one winner: of several PutIfAbsent, or PutIfMatch of one version, exactly one succeeds.
type Store interface {
	// Get returns a whole object of at most limit bytes; a larger one is an error.
	Get(ctx context.Context, key string, limit int64) ([]byte, Info, error)
	// GetRange returns n bytes from offset off. An object that ends before is an error.
	GetRange(ctx context.Context, key string, off, n int64) ([]byte, error)
	// Put writes an object, replacing what was there.
	Put(ctx context.Context, key string, data []byte) (Version, error)
	// PutIfAbsent writes an object that must not exist.
	PutIfAbsent(ctx context.Context, key string, data []byte) (Version, error)
	// PutIfMatch replaces an object that must be at version v.
	PutIfMatch(ctx context.Context, key string, data []byte, v Version) (Version, error)
	// Stat describes an object.
	Stat(ctx context.Context, key string) (Info, error)
	// List yields the objects whose key begins with prefix + "/", ordered by key. An error ends it.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Delete removes an object. One that does not exist is no error.
	Delete(ctx context.Context, key string) error
	// DeleteIfMatch removes an object that must be at version v.
	DeleteIfMatch(ctx context.Context, key string, v Version) error
	io.Closer
}

// Limits of a key that every known object storage and a plain directory can hold.
const (
	maxSegment = 200 // bytes; 255 less room for a temporary name
	maxKey     = 800
)

// CheckKey refuses keys that not every driver can hold: segments of [a-z0-9._-] joined by single slashes, none of them
// beginning with a dot. A caller must also never use one key as another's directory ("a" and "a/b").
func CheckKey(key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("%w: %d bytes long", ErrKey, len(key))
	}
	for segment := range strings.SplitSeq(key, "/") {
		if err := CheckSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

// CheckSegment refuses what cannot be one segment of a key.
func CheckSegment(s string) error {
	if s == "" || len(s) > maxSegment || s[0] == '.' {
		return fmt.Errorf("%w: segment %.40q", ErrKey, s)
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return fmt.Errorf("%w: segment %.40q", ErrKey, s)
		}
	}
	return nil
}
