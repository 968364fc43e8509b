// Package cbpf reads and runs seccomp programs: classic BPF as libseccomp writes it (linux/bpf_common.h, linux/seccomp.h).
//
// It owns the meaning of such a program outside the kernel. Two callers rest on it: jail/filter compares a compiled program
// with the policy it was made of, and the warden asks the program again what a refused call is answered, since a user
// notification carries no answer. It never loads a program and never looks at anything but the words of struct seccomp_data.
//
// It needs no privileges and no kernel feature. A Program is a value that nothing changes; any number of goroutines may run it.
package cbpf
