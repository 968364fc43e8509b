// Package snapshot is the format of a saved file tree, and moves trees into and out of it. docs/snapshot-format.md
// describes the bytes.
//
// Owns: the layout of packs, tree nodes and manifests, and what of a file is kept. Never does: it decides nothing about
// which snapshot is a workspace's newest (package cowfs publishes), and writes nothing outside of the directory it was
// given.
//
// Called by: cowfs. Privileges: those needed to read the tree whole (Scan) and to give files any owner, type and
// attribute (Restore): CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_MKNOD, CAP_SETFCAP, and CAP_SYS_ADMIN for trusted.*
// attributes.
//
// Both sides are hostile: the tree was made by a jailed program, and the bucket may have been written by anyone. What is
// read is bounded and verified before it is used.
//
// Concurrency: a Writer and a Reader belong to one goroutine.
package snapshot
