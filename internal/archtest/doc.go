// Package archtest is the dependency law of the project as a test: which room may import which, where C, Prometheus and
// cloud SDKs may appear, and how large a file may be. Each finding says what was found, and why the law is as it is.
//
// It has no other code. It reads `go list` and the files of the checkout, so it needs the Go tool and the source.
package archtest
