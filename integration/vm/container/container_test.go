package container

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// runtime is what a container runtime does between its clone and the program, in the new namespaces. It waits for $go,
// since the process that forked it still has to leave the container's group.
const runtime = `set -e
mount -t proc proc /proc
for p in bus fs irq sys; do mount --bind /proc/$p /proc/$p; mount -o remount,bind,ro /proc/$p; done
for p in kcore keys timer_list; do mount --bind /dev/null /proc/$p; done
umount -l /sys/fs/cgroup # the kernel refuses a file system on top of itself
mount -t cgroup2 -o nosuid,nodev,noexec cgroup /sys/fs/cgroup
mount -o remount,bind,ro,nosuid,nodev,noexec /sys/fs/cgroup
mount -o remount,bind,ro,nosuid,nodev,noexec /sys
ip link set lo up
while [ ! -e "$go" ]; do sleep 0.1; done
exec "$bin/tolbooth-container" "$bin/tolbooth" agent --socket "$dir/s" --state "$dir/state" --drain-timeout 1s
`

type pod struct {
	t      *testing.T
	bin    string
	dir    string
	cgroup string
	cmd    *exec.Cmd
	log    *os.File
	ended  chan struct{} // closed when cmd has been waited for
	err    error         // how it ended; read after ended
}

func start(t *testing.T) *pod {
	t.Helper()
	hosttest.Need(t, "guest", os.Getenv("TOLBOOTH_VM") != "", "runs in the guest of integration/vm only")
	p := &pod{t: t, bin: os.Getenv("TOLBOOTH_BIN"), dir: t.TempDir(), cgroup: "/sys/fs/cgroup/tb-test-pod", ended: make(chan struct{})}
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	p.log = log
	t.Cleanup(func() { log.Close() })
	// As the kubelet and the runtime leave it: limits may be set on the container, whose group is empty but for it.
	container := filepath.Join(p.cgroup, "container")
	if err := os.Mkdir(p.cgroup, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(p.cgroup) })
	write(t, filepath.Join(p.cgroup, "cgroup.subtree_control"), "+cpu +memory +pids")
	if err := os.Mkdir(container, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(container) })
	write(t, filepath.Join(container, "memory.max"), "1G")

	started := filepath.Join(p.dir, "go")
	p.cmd = exec.Command("bash", "-c", `echo 0 >"$cgroup/cgroup.procs" && exec unshare -m -n -C -p -f --propagation private bash -c "$runtime"`)
	p.cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"cgroup=" + container, "runtime=" + runtime, "go=" + started, "bin=" + p.bin, "dir=" + p.dir,
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.stop)
	p.wait("the container's first process", func() bool { return p.first() != 0 })
	write(t, "/sys/fs/cgroup/cgroup.procs", strconv.Itoa(p.cmd.Process.Pid))
	write(t, started, "")
	p.wait("the socket", func() bool { _, err := os.Stat(filepath.Join(p.dir, "s")); return err == nil })
	return p
}

// first is process 1 of the container, as the node numbers it.
func (p *pod) first() int {
	pid := strconv.Itoa(p.cmd.Process.Pid)
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		return 0
	}
	return n
}

func (p *pod) wait(what string, done func() bool) {
	p.t.Helper()
	patience := time.After(hosttest.Slow(4 * time.Second))
	for !done() {
		select {
		case <-p.ended:
			p.t.Fatalf("%s did not come, the container ended with %v:\n%s", what, p.err, p.printed())
		case <-patience:
			p.t.Fatalf("%s did not come:\n%s", what, p.printed())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *pod) printed() string {
	b, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// stop ends the container as the kubelet does: TERM to process 1, then wait.
func (p *pod) stop() {
	if n := p.first(); n != 0 {
		unix.Kill(n, unix.SIGTERM)
	}
	<-p.ended
	if p.err != nil {
		p.t.Errorf("container ended with %v:\n%s", p.err, p.printed())
	}
}

func (p *pod) run(args ...string) api.Job {
	p.t.Helper()
	cmd := exec.Command(filepath.Join(p.bin, "tolbooth"), append([]string{"run", "--socket", filepath.Join(p.dir, "s"), "--json"}, args...)...)
	out, _ := cmd.Output() // its exit code is the job's
	var job api.Job
	if err := json.Unmarshal(out, &job); err != nil || job.Result == nil {
		p.t.Fatalf("tolbooth run %v: %v: %s\n%s", args, err, out, p.printed())
	}
	return job
}

func TestAgentInAContainer(t *testing.T) {
	p := start(t)
	job := p.run("--", "python3", "-c", "print(1)")
	if r := job.Result; r.Outcome != api.OutcomeOK || r.Isolation.Grade != "syd" {
		t.Errorf("outcome %s, isolation %+v", r.Outcome, r.Isolation)
	}
	job = p.run("--memory", "32Mi", "--", "python3", "-c", "x = b'a' * 200_000_000")
	if r := job.Result; r.Outcome != api.OutcomeMemoryLimit {
		t.Errorf("outcome %s, want memory_limit", r.Outcome)
	}
	// What ran, ran below the container's own group and nowhere else.
	if dirs, _ := filepath.Glob("/sys/fs/cgroup/tb-*"); len(dirs) != 1 {
		t.Errorf("groups beside the pod's: %q", dirs)
	}
	if dirs, _ := filepath.Glob(p.cgroup + "/container/tb-*"); len(dirs) != 2 { // the jobs' parent, and the agent's own
		t.Errorf("groups in the container's: %q", dirs)
	}
	p.stop()
	if dirs, _ := filepath.Glob(p.cgroup + "/container/*/"); len(dirs) != 0 {
		t.Errorf("left behind: %q", dirs)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
