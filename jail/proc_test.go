package jail

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lookAtProc prints the size of whatever can be read directly below /proc, and which namespaces may be made.
const lookAtProc = `
import os
for name in sorted(os.listdir("/proc")):
    path = "/proc/" + name
    if name.isdigit() or os.path.islink(path):
        continue
    try:
        size = len(os.listdir(path)) if os.path.isdir(path) else len(open(path, "rb").read(1000))
    except OSError as e:
        size = e.strerror
    print(name, size)
`

// TestProc: of what the kernel shows in /proc a program sees a list, and the rest is empty, also what a later kernel adds.
func TestProc(t *testing.T) {
	s := newSite(t)
	full := []string{"cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "sysvipc", "tty", "uptime", "version", "vmstat"}
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			o := s.python(t, mode, lookAtProc).run()
			var seen []string
			for line := range strings.Lines(o.stdout) {
				name, size, _ := strings.Cut(strings.TrimSpace(line), " ")
				switch {
				case slices.Contains(full, name):
					seen = append(seen, name)
					if size == "0" || strings.Contains(size, "denied") {
						t.Errorf("/proc/%s cannot be read: %s", name, size)
					}
				case name == "sysrq-trigger": // not readable, and on a read-only mount
				case size != "0":
					t.Errorf("/proc/%s shows %s", name, size)
				}
			}
			if !slices.Equal(seen, full) {
				t.Errorf("seen %v, want %v: %s", seen, full, o.stderr)
			}
		})
	}
}

// makeNamespaces prints what the kernel says to a namespace of each kind, by a call that no filter of these tests refuses.
const makeNamespaces = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def child(flags):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if libc.unshare(flags) == 0 else ctypes.get_errno())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(*[child(0x10000000 | kind) for kind in (0, 0x02000000, 0x08000000, 0x00020000, 0x40000000, 0x20000000, 0x04000000)])
print(*[open("/proc/sys/user/max_%s_namespaces" % kind).read().strip() for kind in "user cgroup ipc mnt net pid time uts".split()])
try:
    open("/proc/sys/user/max_user_namespaces", "w")
except OSError as e:
    print(e.strerror)
`

// TestNamespaces: without its extra no program makes a namespace, filter or none; with it the kernel lets it, in bounds.
func TestNamespaces(t *testing.T) {
	s := newSite(t)
	run := func(userNS bool) []string {
		t.Helper()
		j := s.python(t, Minimal, makeNamespaces)
		j.spec.UserNS = userNS
		o := j.run()
		if o.stderr != "" {
			t.Error(o.stderr)
		}
		return strings.Split(strings.TrimSpace(o.stdout), "\n")
	}
	const none = "28 28 28 28 28 28 28" // ENOSPC
	if got, want := run(false), []string{none, "0 0 0 0 0 0 0 0", "Read-only file system"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := run(true), []string{"0 0 0 0 0 0 0", "64 64 64 64 64 64 64 64", "Read-only file system"}; !slices.Equal(got, want) {
		t.Errorf("with user namespaces: %q, want %q", got, want)
	}
}

// executeOwn copies a program into every writable directory and prints what execve, and the dynamic loader, make of it.
const executeOwn = `
import ctypes, glob, os, shutil, subprocess
loader = (glob.glob("/lib64/ld-linux*.so*") + glob.glob("/lib/ld-linux*.so*"))[0]
def tries(argv):
    try:
        return subprocess.run(argv, capture_output=True).returncode
    except OSError as e:
        return e.strerror
for d in ("/workspace", "/tmp", "/dev/shm"):
    own = d + "/own"
    shutil.copy("/bin/true", own)
    open(d + "/script", "w").write("#!/bin/sh\nexit 0\n")
    os.chmod(d + "/script", 0o755)
    print(d, tries([own]), tries([d + "/script"]), tries([loader, own]))
print("base", tries(["/bin/true"]), tries([loader, "/bin/true"]), tries(["/bin/sh", "/tmp/script"]))
try:
    fd = os.memfd_create("x")
    os.write(fd, open("/bin/true", "rb").read())
    print("memfd", tries(["/proc/%d/fd/%d" % (os.getpid(), fd)]))
except OSError as e:
    print("memfd", e.strerror)
`

// TestBaseExecOnly: nothing that the job wrote is executed, by execve or by the loader. A shell still reads a script, and a
// memory file lies in no directory: against it the filter must refuse memfd_create.
func TestBaseExecOnly(t *testing.T) {
	s := newSite(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			j := s.python(t, mode, executeOwn)
			o := j.run()
			if want := "/workspace 0 0 0\n/tmp 0 0 0\n/dev/shm 0 0 0\nbase 0 0 0\nmemfd 0\n"; o.stdout != want {
				t.Errorf("without: %q, want %q %s", o.stdout, want, o.stderr)
			}
			j = s.python(t, mode, executeOwn)
			j.spec.BaseExecOnly = true
			o = j.run()
			const denied = "Permission denied Permission denied 127\n"
			if want := "/workspace " + denied + "/tmp " + denied + "/dev/shm " + denied + "base 0 0 0\nmemfd 0\n"; o.stdout != want {
				t.Errorf("%q, want %q %s", o.stdout, want, o.stderr)
			}
		})
	}
	t.Run("the command itself", func(t *testing.T) {
		j := s.newJob(t, Minimal, "./own")
		defer j.close()
		at := j.root.Mount
		own, err := os.ReadFile("/bin/true")
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkdirat(int(at.Fd()), "workspace/x", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("/proc/self/fd/"+itoa(at.Fd())+"/workspace/own", own, 0o755); err != nil {
			t.Fatal(err)
		}
		j.spec.BaseExecOnly = true
		_, err = j.try()
		wantStartError(t, err, "command", unix.EACCES, "execve_outside_base")
	})
}

// undoCovers tries, as root of a user namespace in the jail, to undo what init did, and prints what came of it.
const undoCovers = `
unshare -Urm sh -c '
mount -t tmpfs x /tmp && echo mounted
umount /proc/cmdline; umount /sys; umount /proc/sys
mount -o remount,bind,rw /usr; mount -o remount,bind,rw /sys; mount -o remount,bind,rw /proc/sys; mount -o remount,bind,dev /workspace
mount -t proc x /mnt; mount -t sysfs x /tmp
for f in /sys/devices/system/cpu/online /proc/sys/kernel/core_pattern /proc/sys/user/max_user_namespaces /usr/x; do echo 0 >$f && echo wrote $f; done
wc -c </proc/cmdline
cat /proc/self/mountinfo
' 2>/dev/null
`

// TestNestedNamespace: a user namespace, where a job may make one, undoes nothing of the jail around it.
func TestNestedNamespace(t *testing.T) {
	s := newSite(t)
	j := s.newJob(t, Minimal, "sh", "-c", undoCovers)
	j.spec.UserNS, j.spec.Landlock = true, nil
	j.root.CPUs = []int{0}
	o := j.run()
	said, mounts, ok := strings.Cut(o.stdout, "mounted\n0\n")
	if !ok || said != "" {
		t.Fatalf("%q %q", o.stdout, o.stderr)
	}
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if at := f[4]; (at == "/usr" || at == "/sys" || at == "/proc/sys") && !strings.HasPrefix(f[5], "ro,") {
			t.Errorf("%s became writable: %s", at, line)
		}
	}
	if strings.Contains(mounts, "sysfs") || !strings.Contains(mounts, " /proc/cmdline ") || !strings.Contains(mounts, " /sys ") {
		t.Errorf("covers are gone: %s", mounts)
	}
}
