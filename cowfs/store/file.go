package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"
)

// File is a bucket in a directory: an object a file. Several agents may share the directory, over NFS too when it
// honours flock(2).
//
// A write goes to a temporary file, is synced, and takes its place by link(2) or rename(2); then the directory is
// synced. Conditions are checked under a lock of the whole bucket, held for the check and the rename only. The version
// of an object is the hash of its bytes.
type File struct {
	root *os.Root
}

const (
	lockName = ".lock"
	tmpDir   = ".tmp"
	// tmpAge is how old a temporary file must be to count as left behind by a crash.
	tmpAge = 24 * time.Hour
)

// OpenFile opens the bucket in dir, which is made when it is missing.
func OpenFile(dir string) (*File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make bucket directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open bucket directory: %w", err)
	}
	f := &File{root: root}
	if err := f.prepare(); err != nil {
		root.Close()
		return nil, fmt.Errorf("open bucket %s: %w", dir, err)
	}
	return f, nil
}

func (f *File) prepare() error {
	if err := f.root.Mkdir(tmpDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	entries, err := fs.ReadDir(f.root.FS(), tmpDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another agent's, just published
		}
		if err != nil {
			return err
		}
		if time.Since(info.ModTime()) > tmpAge {
			if err := f.root.Remove(path.Join(tmpDir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Close implements Store.
func (f *File) Close() error { return f.root.Close() }

// Get implements Store.
func (f *File) Get(_ context.Context, key string, limit int64) ([]byte, Info, error) {
	if err := CheckKey(key); err != nil {
		return nil, Info{}, err
	}
	data, err := f.read(key, limit)
	if err != nil {
		return nil, Info{}, fmt.Errorf("get %s: %w", key, err)
	}
	return data, Info{Key: key, Size: int64(len(data)), Version: hashVersion(data)}, nil
}

// open opens an object. What is no regular file is none, and is not waited for: a fifo opened plainly blocks for good.
func (f *File) open(key string) (*os.File, error) {
	file, err := f.root.OpenFile(key, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no regular file but %s", info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (f *File) read(key string, limit int64) ([]byte, error) {
	file, err := f.open(key)
	if err != nil {
		return nil, missing(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("object has more than %d bytes", limit)
	}
	return data, nil
}

// GetRange implements Store.
func (f *File) GetRange(_ context.Context, key string, off, n int64) ([]byte, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	file, err := f.open(key)
	if err != nil {
		return nil, fmt.Errorf("get range of %s: %w", key, missing(err))
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if off < 0 || n < 0 || off > info.Size() || n > info.Size()-off {
		return nil, fmt.Errorf("get %s, %d bytes at %d: object ends before", key, n, off)
	}
	data := make([]byte, n)
	if _, err := file.ReadAt(data, off); err != nil {
		return nil, fmt.Errorf("get range of %s: %w", key, err)
	}
	return data, nil
}

// Put implements Store.
func (f *File) Put(_ context.Context, key string, data []byte) (Version, error) {
	return f.put(key, data, func(tmp string) error {
		unlock, err := f.lock()
		if err != nil {
			return err
		}
		defer unlock()
		return f.root.Rename(tmp, key)
	})
}

// PutIfAbsent implements Store. link(2) is its own condition.
func (f *File) PutIfAbsent(_ context.Context, key string, data []byte) (Version, error) {
	return f.put(key, data, func(tmp string) error {
		err := f.root.Link(tmp, key)
		if errors.Is(err, fs.ErrExist) {
			return ErrPrecondition
		}
		return err
	})
}

// PutIfMatch implements Store.
func (f *File) PutIfMatch(_ context.Context, key string, data []byte, v Version) (Version, error) {
	return f.put(key, data, func(tmp string) error {
		unlock, err := f.lock()
		if err != nil {
			return err
		}
		defer unlock()
		if err := f.match(key, v); err != nil {
			return err
		}
		return f.root.Rename(tmp, key)
	})
}

// put writes data to a temporary file and has publish move it to its place.
func (f *File) put(key string, data []byte, publish func(tmp string) error) (Version, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	tmp := path.Join(tmpDir, rand.Text())
	err := f.writeSynced(tmp, data)
	if err == nil {
		err = f.publish(key, func() error { return publish(tmp) })
	}
	// After a rename there is nothing left to remove; after a link or a failure there is.
	if rm := f.root.Remove(tmp); rm != nil && !errors.Is(rm, fs.ErrNotExist) && err == nil {
		err = rm
	}
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return hashVersion(data), nil
}

// publish runs move with the key's directory in place. Delete removes directories that became empty, so one may vanish
// in between; it is made again.
func (f *File) publish(key string, move func() error) error {
	var err error
	for range 10 {
		if err = f.makeDirs(path.Dir(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err = move(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	return f.syncDir(path.Dir(key))
}

func (f *File) writeSynced(name string, data []byte) error {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// makeDirs makes dir and those above it, each one synced into its parent.
func (f *File) makeDirs(dir string) error {
	if dir == "." {
		return nil
	}
	if _, err := f.root.Lstat(dir); err == nil {
		return nil
	}
	if err := f.makeDirs(path.Dir(dir)); err != nil {
		return err
	}
	if err := f.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.syncDir(path.Dir(dir))
}

func (f *File) syncDir(dir string) error {
	d, err := f.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // emptied and removed by someone else's Delete since
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Stat implements Store.
func (f *File) Stat(_ context.Context, key string) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	file, err := f.open(key)
	if err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", key, missing(err))
	}
	defer file.Close()
	h := blake3.New()
	n, err := io.Copy(h, file)
	if err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return Info{Key: key, Size: n, Version: Version(hex.EncodeToString(h.Sum(nil)))}, nil
}

// List implements Store.
func (f *File) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		found, err := f.list(ctx, prefix)
		if err != nil {
			yield(Info{}, fmt.Errorf("list %s: %w", prefix, err))
			return
		}
		for _, info := range found {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (f *File) list(ctx context.Context, prefix string) ([]Info, error) {
	if err := CheckKey(prefix); err != nil {
		return nil, err
	}
	var found []Info
	err := fs.WalkDir(f.root.FS(), prefix, func(p string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // nothing there, or removed meanwhile
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !e.Type().IsRegular() || p == prefix {
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		found = append(found, Info{Key: p, Size: info.Size()})
		return nil
	})
	// WalkDir goes by segments; "-" and "." sort before "/".
	slices.SortFunc(found, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	return found, err
}

// Delete implements Store.
func (f *File) Delete(_ context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return f.remove(key)
}

// DeleteIfMatch implements Store.
func (f *File) DeleteIfMatch(_ context.Context, key string, v Version) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.match(key, v); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return f.remove(key)
}

// remove deletes the file and the directories that became empty by it.
func (f *File) remove(key string) error {
	if err := f.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	dir := path.Dir(key)
	for dir != "." && f.root.Remove(dir) == nil { // fails on the first that is not empty
		dir = path.Dir(dir)
	}
	return f.syncDir(dir)
}

// match checks the version of an object. Precondition: the bucket is locked.
func (f *File) match(key string, v Version) error {
	file, err := f.open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrPrecondition
	}
	if err != nil {
		return err
	}
	defer file.Close()
	h := blake3.New()
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	if Version(hex.EncodeToString(h.Sum(nil))) != v {
		return ErrPrecondition
	}
	return nil
}

// lock takes the bucket's lock. The descriptor is opened anew each time: flock belongs to the open file.
func (f *File) lock() (unlock func(), err error) {
	file, err := f.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open bucket lock: %w", err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("flock bucket: %w", err)
	}
	return func() { file.Close() }, nil
}

func hashVersion(data []byte) Version {
	sum := blake3.Sum256(data)
	return Version(hex.EncodeToString(sum[:]))
}

func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	return err
}
