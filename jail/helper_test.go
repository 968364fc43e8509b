package jail

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	hosttest.Main(m)
}

const (
	testUIDBase = 0x70000000
	testUser    = 1000
)

// site is what the tests of one test function share: a launcher, a cgroup parent.
type site struct {
	launcher *Launcher
	engine   Engine // of its jobs in mode Syd
	modes    []Mode // worth running with the engine
	parent   *cgroup.Parent
	jobs     atomic.Int64
}

var sites atomic.Int64

var modes = []Mode{Syd, Minimal}

// everyEngine runs a test once with each engine, and mode Minimal, which has none, once.
func everyEngine(t *testing.T, test func(*testing.T, *site)) {
	for engine, m := range map[Engine][]Mode{Notify: modes, Ptrace: {Syd}} {
		t.Run(string(engine), func(t *testing.T) {
			s := newSite(t)
			s.engine, s.modes = engine, m
			test(t, s)
		})
	}
}

func newSite(t testing.TB) *site {
	t.Helper()
	hosttest.Root(t)
	launcher, err := NewLauncher(hosttest.JailBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	parent, err := cgroup.OpenParent(fmt.Sprintf("tb-jail-%d-%d", os.Getpid(), sites.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		launcher.Wait()
		if err := parent.Close(); err != nil {
			t.Error(err)
		}
		if err := launcher.Close(); err != nil {
			t.Error(err)
		}
	})
	return &site{launcher: launcher, engine: Notify, modes: modes, parent: parent}
}

// job is one run under test.
type job struct {
	t      testing.TB
	site   *site
	place  Place
	root   Root
	spec   Spec
	spool  string
	limits cgroup.Limits
	undo   []func()
}

// newJob makes everything a jail needs: group, root, spool. Its Spec runs command as the sandbox user.
func (s *site) newJob(t testing.TB, mode Mode, command ...string) *job {
	t.Helper()
	group, err := s.parent.Create(fmt.Sprintf("job-%d", s.jobs.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	j := &job{t: t, site: s, place: Place{Mode: mode, UIDBase: testUIDBase, Cgroup: group}}
	j.spool = filepath.Join(t.TempDir(), "spool")
	file, err := os.OpenFile(j.spool, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	root, mounts := testRoot(t)
	j.root = Root{
		Mount: root, Mounts: mounts,
		Tmpfs: []Tmpfs{
			{Target: "/tmp", Bytes: 16 << 20, Mode: 0o1777}, {Target: "/run", Bytes: 1 << 20, Mode: 0o755},
			{Target: "/dev/shm", Bytes: 16 << 20, Mode: 0o1777},
		},
	}
	j.spec = Spec{
		Command: command,
		Env:     []string{"PATH=/usr/bin:/bin", "HOME=/workspace", "LANG=C.UTF-8"}, Cwd: "/workspace", UID: testUser, GID: testUser,
		Rlimits:  []Rlimit{{Resource: unix.RLIMIT_NOFILE, Value: 256}},
		Landlock: &Landlock{Write: []string{"/workspace", "/tmp", "/dev/shm"}},
		Spool:    file, Started: time.Now(), Wall: hosttest.Slow(30 * time.Second), Output: 1 << 20, Grace: 200 * time.Millisecond,
	}
	if mode == Syd {
		j.place.Engine, j.spec.Filter = s.engine, testFilter()
	}
	j.undo = append(j.undo, func() {
		for _, f := range append([]*os.File{root, file}, files(mounts)...) {
			f.Close()
		}
		if err := group.Remove(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func files(mounts []Mount) (list []*os.File) {
	for _, m := range mounts {
		list = append(list, m.File)
	}
	return list
}

func (j *job) close() {
	for _, f := range j.undo {
		f()
	}
}

// prepare makes a jail that waits for its root.
func (j *job) prepare() *Prepared {
	j.t.Helper()
	p, err := j.site.launcher.Prepare(context.Background(), j.place)
	if err != nil {
		j.t.Fatal(err)
	}
	return p
}

// build makes a jail that waits for its command.
func (j *job) build() *Prepared {
	j.t.Helper()
	p := j.prepare()
	if err := p.Build(context.Background(), j.root); err != nil {
		j.t.Fatal(err)
	}
	if err := j.place.Cgroup.SetLimits(j.limits); err != nil {
		j.t.Fatal(err)
	}
	return p
}

// try takes a job as far as it goes.
func (j *job) try() (*Process, error) {
	j.t.Helper()
	p := j.prepare()
	if err := p.Build(context.Background(), j.root); err != nil {
		return nil, err
	}
	return p.Start(context.Background(), j.spec)
}

func (j *job) start() *Process {
	j.t.Helper()
	process, err := j.build().Start(context.Background(), j.spec)
	if err != nil {
		j.t.Fatal(err)
	}
	return process
}

func (j *job) wait(p *Process) Exit {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hosttest.Slow(time.Minute))
	defer cancel()
	exit, err := p.Wait(ctx)
	if err != nil {
		j.t.Fatal(err)
	}
	return exit
}

// outcome is what a run left.
type outcome struct {
	Exit
	stdout, stderr string
	denials        []Denial
	cpu            time.Duration // of the whole group and of the warden, start included
}

// read collects the spool.
func (j *job) read() outcome {
	j.t.Helper()
	var o outcome
	r, err := spool.Open(j.spool)
	if err != nil {
		j.t.Fatal(err)
	}
	defer r.Close()
	exits := 0
	err = spool.Scan(r, func(rec spool.Record) error {
		switch rec.Kind {
		case spool.Stdout:
			o.stdout += string(rec.Payload)
		case spool.Stderr:
			o.stderr += string(rec.Payload)
		case spool.Denial:
			var d Denial
			if err := json.Unmarshal(rec.Payload, &d); err != nil {
				return err
			}
			o.denials = append(o.denials, d)
		case spool.Exit:
			exits++
			return json.Unmarshal(rec.Payload, &o.Exit)
		}
		return nil
	})
	if err != nil || exits > 1 {
		j.t.Fatalf("spool has %d exits, error %v", exits, err)
	}
	return o
}

// run runs the job to its end.
func (j *job) run() outcome {
	j.t.Helper()
	defer j.close()
	exit := j.wait(j.start())
	o := j.read()
	if exit != o.Exit {
		j.t.Errorf("Wait returned %+v, the spool has %+v", exit, o.Exit)
	}
	usage, err := j.place.Cgroup.Usage()
	if err != nil {
		j.t.Error(err)
	}
	o.cpu = usage.CPU + time.Duration(o.WardenUS)*time.Microsecond
	return o
}

// testRoot is a plain root: a tmpfs with the node's /usr read-only below it and a /dev of its own.
func testRoot(t testing.TB) (*os.File, []Mount) {
	t.Helper()
	root := memory(t, "root", map[string]string{"mode": "0755"}, 0)
	at := func(path string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", root.Fd(), path) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"usr", "etc", "proc", "sys", "dev", "tmp", "run", "var", "home", "workspace"} {
		must(os.Mkdir(at(dir), 0o755))
	}
	must(os.Chown(at("workspace"), testUIDBase+testUser, testUIDBase+testUser))
	for _, link := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if target, err := os.Readlink("/" + link); err == nil {
			must(os.Symlink(target, at(link)))
		}
	}
	must(os.WriteFile(at("etc/passwd"), []byte("sandbox:x:1000:1000::/workspace:/bin/sh\n"), 0o644))
	usr, err := unix.OpenTree(unix.AT_FDCWD, "/usr", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	must(err)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	must(unix.MountSetattr(usr, "", unix.AT_EMPTY_PATH, &attr))
	return root, []Mount{{"/usr", os.NewFile(uintptr(usr), "usr")}, {"/dev", testDev(t)}}
}

func testDev(t testing.TB) *os.File {
	t.Helper()
	dev := memory(t, "dev", map[string]string{"mode": "0755"}, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := unix.Mknodat(int(dev.Fd()), name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			t.Fatal(err)
		}
		if err := unix.Fchmodat(int(dev.Fd()), name, 0o666, 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := unix.Symlinkat(target, int(dev.Fd()), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := unix.Mkdirat(int(dev.Fd()), name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dev
}

func memory(t testing.TB, name string, options map[string]string, attributes int) *os.File {
	t.Helper()
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fs)
	for key, value := range options {
		if err := unix.FsconfigSetString(fs, key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), name)
}

var needPython = sync.OnceValue(func() bool { _, err := os.Stat("/usr/bin/python3"); return err == nil })

// rounds is how often a test repeats something: less where everything is emulated.
func rounds(n int) int {
	if hosttest.Slow(1) > 1 {
		return max(1, n/10)
	}
	return n
}

// python is a job that runs a script.
func (s *site) python(t testing.TB, mode Mode, script string) *job {
	t.Helper()
	hosttest.Need(t, "python3", needPython(), "/usr/bin/python3 runs inside the jail")
	return s.newJob(t, mode, "python3", "-c", script)
}

func newFile(fd int) *os.File { return os.NewFile(uintptr(fd), "file") }

func itoa(n uintptr) string { return strconv.Itoa(int(n)) }

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// dead is true of a process that is gone, or that only its parent has yet to notice.
func dead(t testing.TB, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ") // of tolbooth-jail: no bracket in its name
	return strings.HasPrefix(state, "Z")
}

// childOf is the only child of a process.
func childOf(t testing.TB, pid int) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil {
			continue
		}
		var ppid int
		for line := range stringsLines(b) {
			if _, err := fmt.Sscanf(line, "PPid:\t%d", &ppid); err == nil {
				break
			}
		}
		if ppid == pid {
			return n
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}
