package policy

import "testing"

func BenchmarkDefault(b *testing.B) {
	for b.Loop() {
		mustDefault(b, "amd64")
	}
}

func BenchmarkEvaluate(b *testing.B) {
	p := mustDefault(b, "amd64")
	for b.Loop() {
		p.Evaluate(p.AuditArch(), 41, args(2, 1, 6))
	}
}
