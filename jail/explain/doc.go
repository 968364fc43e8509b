// Package explain puts a refused system call into words that a person or a language model can act on: what was
// attempted, which rule stopped it, why, and what to do instead.
//
// It owns the wording of the attempt. Rule and reason come from the policy itself. What it says rests on the call's ABI,
// number and register arguments, which is all that the warden records; it never sees the program's memory, and so never
// names a path.
//
// The agent calls it for each denial that a warden recorded. Everything in one is hostile input: numbers are looked up in
// tables and otherwise printed as numbers, and the program's name is made printable.
//
// It needs no privileges and no kernel. Its functions keep nothing and may be called by any number of goroutines.
package explain
