package snapshot

import "errors"

var (
	// ErrCorrupt: what the bucket holds is not what was written: damaged, cut short, or made by someone hostile.
	ErrCorrupt = errors.New("snapshot is corrupt")
	// ErrVersion: a format that this version does not know.
	ErrVersion = errors.New("snapshot has an unknown format version")
	// ErrRefused: an entry that cannot be kept, or must not be restored. The text names entry and reason.
	ErrRefused = errors.New("entry refused")
	// ErrTooLarge: a bound on entries, bytes, depth or names was reached.
	ErrTooLarge = errors.New("snapshot too large")
)
