package smoke

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// guest skips on a machine that guest.sh does not run on: it may be anything.
func guest(t *testing.T) {
	t.Helper()
	hosttest.Need(t, "guest", os.Getenv("TOLBOOTH_VM") != "", "runs in the guest of integration/vm only")
}

// tcxKernel is the first kernel with tcx (6.6, commit e420bed02507).
func tcxKernel(t *testing.T) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	return !strings.HasPrefix(release, "6.1.")
}

func TestCgroupControllers(t *testing.T) {
	guest(t)
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Fatalf("/sys/fs/cgroup has type %#x, want cgroup2", fs.Type)
	}
	dir, err := os.MkdirTemp("/sys/fs/cgroup", "tb-smoke-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		t.Fatal(err)
	}
	have := strings.Fields(string(data))
	for _, want := range []string{"cpu", "io", "memory", "pids"} {
		if !slices.Contains(have, want) {
			t.Errorf("controller %s is not handed down from the root: %v", want, have)
		}
	}
	for _, file := range []string{"cgroup.kill", "cgroup.freeze", "memory.peak", "memory.events", "pids.events"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestOverlayOnDisk(t *testing.T) {
	guest(t)
	dir := t.TempDir()
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lower", "file"), []byte("lower"), 0o644); err != nil {
		t.Fatal(err)
	}
	merged := filepath.Join(dir, "merged")
	options := "lowerdir=" + dir + "/lower,upperdir=" + dir + "/upper,workdir=" + dir + "/work,metacopy=off,redirect_dir=off"
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(merged, unix.MNT_DETACH)
	// user.* xattrs are what tmpfs lacks below 6.6: the upper has to lie on a disk.
	if err := unix.Setxattr(filepath.Join(merged, "file"), "user.smoke", []byte("1"), 0); err != nil {
		t.Fatalf("setxattr on a file of the lower: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "upper", "file")); err != nil {
		t.Errorf("file was not copied up: %v", err)
	}
}

// TestAttach loads a program that passes everything and attaches it to lo both ways: clsact always, tcx from 6.6 on.
func TestAttach(t *testing.T) {
	guest(t)
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.SchedCLS,
		License:      "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	hosttest.Netns(t, func() {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			t.Error(err)
			return
		}
		clsact := &netlink.GenericQdisc{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: lo.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT},
			QdiscType:  "clsact",
		}
		if err := netlink.QdiscAdd(clsact); err != nil {
			t.Errorf("add clsact: %v", err)
			return
		}
		filter := &netlink.BpfFilter{
			FilterAttrs:  netlink.FilterAttrs{LinkIndex: lo.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
			Fd:           program.FD(),
			Name:         "smoke",
			DirectAction: true,
		}
		if err := netlink.FilterAdd(filter); err != nil {
			t.Errorf("add a direct-action filter: %v", err)
		}
		tcx, err := link.AttachTCX(link.TCXOptions{Program: program, Interface: lo.Attrs().Index, Attach: ebpf.AttachTCXEgress})
		if err == nil {
			tcx.Close()
		}
		if got, want := err == nil, tcxKernel(t); got != want {
			t.Errorf("tcx works: %v (%v), want %v on this kernel", got, err, want)
		}
	})
}
