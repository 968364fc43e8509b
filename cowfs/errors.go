package cowfs

import (
	"errors"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// What a caller may do next depends on which of these an error is; the text says what happened.
var (
	// ErrPath: the path of the request cannot be used. The caller's fault.
	ErrPath = errors.New("path not usable")
	// ErrNotWritable: the job may not write there. The caller's fault.
	ErrNotWritable = errors.New("place is not writable for the job")
	// ErrNotRegular: something is there that is not a regular file (fifo, socket, device, directory).
	ErrNotRegular = errors.New("not a regular file")
	// ErrNotFound: no such file, workspace or snapshot.
	ErrNotFound = errors.New("not found")
	// ErrTooLarge: a bound on bytes, entries or time was reached.
	ErrTooLarge = errors.New("too large")
	// ErrName: a workspace or job name that is not allowed.
	ErrName = errors.New("name not allowed")
	// ErrBusy: the workspace is in use by another job of this agent.
	ErrBusy = errors.New("workspace is in use")
	// ErrConflict: someone else flushed the workspace since it was restored here.
	ErrConflict = errors.New("workspace was changed by someone else")
	// ErrNotFlushable: this tree must not or cannot be flushed (ephemeral, not restored, already flushed away).
	ErrNotFlushable = errors.New("tree cannot be flushed")
	// ErrUnsupported: this node, kernel or file system cannot do it.
	ErrUnsupported = errors.New("not supported on this node")
)

// quote makes a hostile string safe to print.
func quote(s string) string { return fdwalk.Quote(s) }
