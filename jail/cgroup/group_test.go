package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMemoryLimitKillsIsCountedAndReported(t *testing.T) {
	p := testParent(t)
	const limit = 24 << 20
	g := testGroup(t, p, Limits{MemoryBytes: limit})
	events := watch(t, g)
	cmd := role("eat")
	startIn(t, g, cmd)
	if e := await(t, events); !e.OOM || e.Pids {
		t.Errorf("event %+v", e)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v, want SIGKILL", err)
	}
	u := usage(t, g)
	const slack = 64 << 10 // the kernel charges in batches of pages
	if u.OOMKills < 1 || u.MemoryPeakBytes < limit || u.MemoryPeakBytes > limit+OverheadMemoryBytes+slack {
		t.Errorf("usage %+v, limit %d", u, limit)
	}
}

func TestPidsLimitRefusesIsCountedAndReported(t *testing.T) {
	p := testParent(t)
	g := testGroup(t, p, Limits{Pids: 2})
	events := watch(t, g)
	startIn(t, g, sh("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sleep 60 & done 2>/dev/null; wait"))
	if e := await(t, events); !e.Pids || e.OOM {
		t.Errorf("event %+v", e)
	}
	u := usage(t, g)
	if u.PidsRefused < 1 {
		t.Errorf("usage %+v: nothing refused", u)
	}
	if u.PidsPeak != 0 && u.PidsPeak != 2+OverheadPids { // 0: a kernel that does not count it
		t.Errorf("peak %d, limit %d", u.PidsPeak, 2+OverheadPids)
	}
}

func TestCPULimitThrottles(t *testing.T) {
	p := testParent(t)
	g := testGroup(t, p, Limits{CPUs: 0.25})
	startIn(t, g, role("spin"))
	start := time.Now()
	time.Sleep(1200 * time.Millisecond)
	u := usage(t, g)
	// One period's quota may be used ahead.
	if most := time.Since(start)/4 + 100*time.Millisecond; u.CPU > most || u.CPU == 0 {
		t.Errorf("used %v of CPU in %v, at most %v allowed", u.CPU, time.Since(start), most)
	}
}

func TestLimitsAreLifted(t *testing.T) {
	p := testParent(t)
	g := testGroup(t, p, Limits{MemoryBytes: 16 << 20, Pids: 4, CPUs: 1.5})
	files := map[string]string{ // control file: value with the limits above, then with none
		"memory.limit_in_bytes": "20971520 -", "memory.max": "20971520 max", "pids.max": "12 max",
		"cpu.cfs_quota_us": "150000 -1", "cpu.max": "150000-100000 max-100000", "memory.memsw.limit_in_bytes": "20971520 -",
		"memory.kmem.tcp.limit_in_bytes": "4194304 -",
	}
	check := func(which int) {
		t.Helper()
		seen := 0
		for _, dir := range g.all() {
			for name, values := range files {
				text, err := read(dir, name)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				seen++
				want := strings.Fields(values)[which]
				if got := strings.ReplaceAll(strings.TrimSpace(text), " ", "-"); got != want && want != "-" || want == "-" && len(got) < 18 {
					t.Errorf("%s/%s is %q, want %s", dir, name, got, want)
				}
			}
		}
		if seen < 3 {
			t.Errorf("only %d control files seen", seen)
		}
	}
	check(0)
	for range 2 { // lifting twice, and setting again, is fine
		if err := g.SetLimits(Limits{}); err != nil {
			t.Fatal(err)
		}
		check(1)
	}
	if err := g.SetLimits(Limits{MemoryBytes: 16 << 20, Pids: 4, CPUs: 1.5}); err != nil {
		t.Fatal(err)
	}
	check(0)
	for _, bad := range []Limits{{MemoryBytes: -1}, {Pids: -1}, {CPUs: -1}, {CPUs: 0.001}} {
		if err := g.SetLimits(bad); err == nil {
			t.Errorf("%+v accepted", bad)
		}
	}
}

// family starts processes that a signal to one of them would not end.
const family = "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; sleep 60 & sleep 60' & (sleep 60 & sleep 60) & sleep 60"

func TestKillLeavesNothing(t *testing.T) {
	for name, kill := range map[string]func(Group) error{"kernel": Group.Kill, "before 5.14": Group.killFrozen} {
		t.Run(name, func(t *testing.T) {
			p := testParent(t)
			g := testGroup(t, p, Limits{})
			cmd := sh(family)
			startIn(t, g, cmd)
			eventually(t, "the family is complete", func() bool {
				pids, err := g.Processes()
				return err == nil && len(pids) >= 6
			})
			if busy, err := g.Populated(); err != nil || !busy {
				t.Errorf("populated %v, %v", busy, err)
			}
			if err := kill(g); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if err := g.WaitEmpty(5 * time.Second); err != nil {
				t.Fatal(err)
			}
			if busy, err := g.Populated(); err != nil || busy {
				t.Errorf("populated %v, %v", busy, err)
			}
			for range 2 {
				if err := g.Remove(); err != nil {
					t.Error(err)
				}
			}
			if err := g.Kill(); err != nil {
				t.Errorf("kill of a group that is gone: %v", err)
			}
		})
	}
}

func TestWaitEmptyNamesWhoIsLeft(t *testing.T) {
	p := testParent(t)
	g := testGroup(t, p, Limits{})
	cmd := sh("sleep 60")
	startIn(t, g, cmd)
	err := g.WaitEmpty(30 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), g.Unified) {
		t.Errorf("error %v", err)
	}
}

func TestFreezeStopsAndThawGoesOn(t *testing.T) {
	p := testParent(t)
	g := testGroup(t, p, Limits{})
	startIn(t, g, role("spin"))
	eventually(t, "it runs", func() bool { return usage(t, g).CPU > 0 })
	if err := g.Freeze(); err != nil {
		t.Fatal(err)
	}
	before := usage(t, g).CPU
	time.Sleep(50 * time.Millisecond)
	if after := usage(t, g).CPU; after != before {
		t.Errorf("used %v while frozen", after-before)
	}
	if err := g.Thaw(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return usage(t, g).CPU > before })
	if err := g.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := g.Kill(); err != nil { // a frozen group can be killed
		t.Fatal(err)
	}
	if err := g.WaitEmpty(5 * time.Second); err != nil {
		t.Error(err)
	}
}

func TestEnterV1MovesThisThreadAndBack(t *testing.T) {
	p := testParent(t)
	g := testGroup(t, p, Limits{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here := func() string {
		text, err := os.ReadFile("/proc/thread-self/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := here()
	leave, err := g.EnterV1()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(here(), "job-1.a"); g.hybrid() && n == 0 || !g.hybrid() && n > 0 {
		t.Errorf("inside: %s", here())
	}
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	if here() != before {
		t.Errorf("after: %s\nbefore: %s", here(), before)
	}
	if err := leave(); err != nil {
		t.Errorf("leaving twice: %v", err)
	}
}

func TestWatchEndsWithStop(t *testing.T) {
	p := testParent(t)
	g := testGroup(t, p, Limits{})
	stop := make(chan struct{})
	events, err := g.Watch(stop)
	if err != nil {
		t.Fatal(err)
	}
	close(stop)
	select {
	case _, ok := <-events:
		if ok {
			t.Error("an event of nothing")
		}
	case <-time.After(5 * time.Second):
		t.Error("still open")
	}
}

func TestSweepRemovesWhatIsNotKept(t *testing.T) {
	p := testParent(t)
	var groups []Group
	for _, name := range []string{"dead", "kept", "stuck"} {
		g, err := p.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, g)
	}
	if _, err := p.Create("dead"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating twice: %v", err)
	}
	dead, kept := sh(family), sh("sleep 60")
	startIn(t, groups[0], dead)
	startIn(t, groups[1], kept)
	if err := os.Mkdir(groups[0].Unified+"/inner", 0o755); err != nil {
		t.Fatal(err)
	}
	// A parent of the same name, as the next agent opens it, finds them.
	again, err := OpenParent(testName())
	if err != nil {
		t.Fatal(err)
	}
	swept, err := again.Sweep("kept")
	if err != nil || !slices.Equal(swept, []string{"dead", "stuck"}) {
		t.Errorf("swept %v, %v", swept, err)
	}
	dead.Wait()
	if g, err := again.Open("kept"); err != nil || g != groups[1] {
		t.Errorf("kept: %+v, %v", g, err)
	}
	if busy, err := groups[1].Populated(); err != nil || !busy {
		t.Errorf("the kept group: populated %v, %v", busy, err)
	}
	if _, err := again.Open("dead"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the dead one: %v", err)
	}
}

// TestSweepFindsV1OnlyMembers: a warden that died between entering and leaving v1 is in no v2 group.
func TestSweepFindsV1OnlyMembers(t *testing.T) {
	p := testParent(t)
	g := testGroup(t, p, Limits{})
	needHybrid(t, p)
	cmd := sh("sleep 60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := write(g.Memory, "cgroup.procs", itoa(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Sweep(); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", err)
	}
}

func TestProbeLeavesNothing(t *testing.T) {
	p := testParent(t)
	s, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != p.Support().Version || !slices.Equal(s.Missing(), p.Support().Missing()) {
		t.Errorf("probe %+v, parent %+v", s, p.Support())
	}
	t.Logf("%s, missing: %q", s.Version, s.Missing())
	if _, err := os.Stat(p.own.Unified + "/tb-probe-" + pidText()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

func BenchmarkCreateLimitRemove(b *testing.B) {
	p := testParent(b)
	for b.Loop() {
		g, err := p.Create("bench")
		if err != nil {
			b.Fatal(err)
		}
		if err := g.SetLimits(Limits{MemoryBytes: 64 << 20, Pids: 64, CPUs: 1}); err != nil {
			b.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	p := testParent(b)
	g := testGroup(b, p, Limits{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		leave, err := g.EnterV1()
		if err == nil {
			err = leave()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUsage(b *testing.B) {
	p := testParent(b)
	g := testGroup(b, p, Limits{})
	for b.Loop() {
		usage(b, g)
	}
}
