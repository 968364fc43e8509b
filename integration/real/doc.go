// Package real runs real programs in syd jails with the default policy, through the socket: the interpreter's own
// regression tests, data libraries, compilers, version control, shells; and many small jobs at once.
package real
