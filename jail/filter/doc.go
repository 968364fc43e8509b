// Package filter turns a system call policy into the program that the kernel runs for each call of a jail.
//
// It owns the translation, done with libseccomp (cgo: the only package that has it), and the check that the translation
// says what the table says: every program is run in an interpreter over all numbers, foreign ABIs and argument corners of
// the policy, and one that differs from policy.Evaluate in a single case is not handed out. libseccomp is whatever the
// node has installed, so this is checked on the node, not only in a test.
//
// It never loads a program; jail/launch does, in the process that is about to become the user's. It needs no privileges
// and no kernel feature; the programs need seccomp filters with SECCOMP_RET_TRACE (Linux 4.8 for their order before
// ptrace).
//
// The agent calls it for each job; a Cache keeps the programs of the policies that were asked for last. Programs are plain bytes; a Cache may be used by any number of goroutines
// and needs no closing.
package filter
