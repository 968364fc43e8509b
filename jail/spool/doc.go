// Package spool is the record of one run on disk: everything the jailed command printed and everything the warden and
// the agent saw, in one order, read by any number of readers while it grows.
//
// It owns the byte layout of that file and nothing else: it never decides what is kept, never deletes a file, never
// waits for growth (the writer's eventfd tells a reader when to look again).
//
// Layout. The file is a sequence of records without a file header; integers are little endian:
//
//	offset 0  uint32   payload length n, at most MaxPayload
//	       4  uint8    kind
//	       5  [3]byte  "tb" and the format version, 1
//	       8  int64    microseconds since the run was admitted
//	      16  [n]byte  payload
//
// A record is one write(2) to a descriptor opened with O_APPEND. Linux holds the inode's lock for the whole of such a
// write, so several processes may append to one file and their records never mix. A record's index in the file is its
// sequence number; it is not stored.
//
// A write can still be cut short: by a full disk, which Append undoes, or by SIGKILL between two pages, which leaves a
// torn record at the end. Readers take a torn end for the end of the file. Whoever appends after another writer was
// killed calls Repair first, since a record behind a torn one would be read as its payload.
//
// Callers: the warden and the agent write; the agent reads. Nothing read is trusted: a length, kind or mark that no
// writer makes is ErrCorrupt. Privileges: none. Kernel: any. The caller opens and closes the files (Open is the
// exception: Reader.Close). A Writer may be used by many goroutines; a Reader by one at a time, with any number of
// Readers on one file. Standard library and x/sys only, since tolbooth-jail links it.
package spool
