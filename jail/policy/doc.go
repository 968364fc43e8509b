// Package policy is the table of system calls: which a jailed program may make, with which register arguments, and what
// a refused one is answered, each refusal with its reason.
//
// It owns the decision and its words. The table starts from the allow-list that container engines ship
// (github.com/moby/profiles/seccomp, without the groups that go with a capability) and takes away what a job never
// needs. Evaluate is the reference: the filter that package filter compiles from the same table is checked against it,
// and package explain takes rule and reason of a refused call from it, so that none of the three can drift.
//
// It never looks at memory a program can change: a decision rests on the call's number, its ABI and its register
// arguments. It never touches the kernel: it runs unprivileged, on any kernel and for any architecture.
//
// A Change asks for less or more of it: extras by name, which the agent grants where the operator permits them, and denials,
// which outrank them. Where an extra makes a call the warden's to carry out, the action is Broker.
//
// Callers are jail/filter, jail/explain and the agent. A Policy is a value that nothing changes after For made it; it
// needs no closing and may be used by any number of goroutines.
//
// Refusals come in two strengths. Trace stops the program so that the warden can record the refusal; it is the rule.
// Quiet gives the errno without a stop, for calls that ordinary programs try many times, fall back from, and nobody
// wants to hear about. (A third, Skip, is no refusal: what the program asks for it has already, better than it asks.) A call that programs try and do without is answered ENOSYS, since that is the answer they are
// written for; anything else EPERM.
package policy

//go:generate go run gen.go
