package bpf

import (
	"syscall"
	"testing"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestNextAgentTakesOver(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{})
		policy := Policy{Mode: ModeAllow, Allow: []Rule{rule("10.0.0.0/8", 443, 443, TCP)}}
		kept, job := bindCgroup(t, e, 1, policy)
		lost, lostJob := bindCgroup(t, e, 2, Policy{Mode: ModeOpen})
		dialIn(t, kept, 3, "tcp/10.0.0.1:80")
		release := bindLoopback(t, e, 1, policy)
		defer release()

		// What a killed agent leaves behind: nothing of it is closed in order, the attachments stay.
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if got := dialIn(t, kept, 1, "tcp/10.0.0.1:443", "tcp/10.0.0.1:80"); got[0] != unreachable || got[1] != syscall.EPERM {
			t.Errorf("without an agent: %v", got)
		}
		next := load(t, Options{Cgroup: e.cgroup.Name()})
		if !next.Adopted() {
			t.Fatal("nothing was taken over")
		}
		if got := dialIn(t, kept, 1, "tcp/10.0.0.1:443"); got[0] != unreachable {
			t.Errorf("before the job is bound again: %v", got)
		}
		id, releaseNext, err := next.SetPolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		if id != job.Policy {
			t.Errorf("policy id %d, was %d", id, job.Policy)
		}
		if err := next.BindCgroup(job); err != nil {
			t.Fatal(err)
		}
		if err := next.Sweep(); err != nil {
			t.Fatal(err)
		}
		if stats, err := next.Stats(1); err != nil || stats.Denied != 4 {
			t.Errorf("counters %+v (%v), want 4 refusals kept", stats, err)
		}
		if got := dialIn(t, lost, 1, "tcp/10.0.0.1:443"); got[0] != syscall.EPERM {
			t.Errorf("a group that nobody claimed: %v, want EPERM", got)
		}
		var head egressPolicy
		if err := next.objects.TbPolicies.Lookup(lostJob.Policy, &head); err == nil {
			t.Error("a policy that nobody holds is still there")
		}
		if err := next.objects.TbVeths.Lookup(uint32(1), &egressVeth{}); err == nil {
			t.Error("a veth that nobody claimed is still there")
		}
		if err := releaseNext(); err != nil {
			t.Error(err)
		}
		for name, n := range next.entries(t) {
			if n != 0 {
				t.Errorf("%d entries left in %s", n, name)
			}
		}
	})
}

func TestOtherShapeStartsAnew(t *testing.T) {
	hosttest.Netns(t, func() {
		e := load(t, Options{Slots: 16})
		dir, _ := bindCgroup(t, e, 1, Policy{Mode: ModeOpen})
		next := load(t, Options{Cgroup: e.cgroup.Name(), Slots: 32})
		if next.Adopted() {
			t.Error("maps of another size were taken over")
		}
		if got := dialIn(t, dir, 1, "tcp/10.0.0.1:443"); got[0] != syscall.EPERM {
			t.Errorf("a job that the new maps do not know: %v, want EPERM", got)
		}
	})
}

func TestPoliciesAreSharedAndRemoved(t *testing.T) {
	hosttest.Root(t)
	e := load(t, Options{})
	p := manyRules(100)
	a, releaseA, err := e.SetPolicy(p)
	if err != nil {
		t.Fatal(err)
	}
	b, releaseB, err := e.SetPolicy(p)
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Errorf("ids %d and %d for one policy", a, b)
	}
	for range 2 { // the second call of a release does nothing
		if err := releaseA(); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.entries(t)["rules"]; n != 101 { // and the one for all of IPv4
		t.Errorf("%d rules, want 101", n)
	}
	if err := releaseB(); err != nil {
		t.Fatal(err)
	}
	for name, n := range e.entries(t) {
		if n != 0 {
			t.Errorf("%d entries left in %s", n, name)
		}
	}
}

// entries counts what policies leave in the maps.
func (e *Egress) entries(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	count := func(name string, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	count("policies", deleteWhere(e.objects.TbPolicies, func(uint32) bool { out["policies"]++; return false }))
	count("rules", deleteWhere(e.objects.TbRules, func(egressRuleKey) bool { out["rules"]++; return false }))
	count("ports", deleteWhere(e.objects.TbPorts, func(egressPortsKey) bool { out["ports"]++; return false }))
	return out
}
