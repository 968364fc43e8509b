package cowfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// usrOf is a path below which the tree's /usr lies.
func usrOf(t *testing.T, tree *Tree) string {
	t.Helper()
	for _, m := range tree.Mounts() {
		if m.Target == "/usr" {
			return fdPath(m.File) + "/"
		}
	}
	t.Fatal("the tree has no /usr")
	return ""
}

// nodeWithFile is a node of which /usr/share/f is known, on a file system that tests may watch.
func nodeWithFile(t *testing.T) (root string, m *Manager) {
	root = t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "usr/share"), 0o755))
	must(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "usr/share/f"), []byte("node"), 0o666))
	m = newManager(t, func(o *Options) { o.NodeRoot = root })
	hosttest.Need(t, "stacked-overlay", m.Support().OwnBase, m.Support().SharedBase)
	return root, m
}

// TestTheBaseIsNotTheNodes: a job does not learn by a watch what the node's programs and other jobs open, and nobody waits
// for its locks and leases. The other way round the kernel tells a watch of the node's what jobs open, as it does for a
// clone; that is the operator's to see.
func TestTheBaseIsNotTheNodes(t *testing.T) {
	root, m := nodeWithFile(t)
	one, two := create(t, m, CreateOptions{ID: "one"}), create(t, m, CreateOptions{ID: "two", Slot: 1, IDBase: testIDBase + idRange})
	node, in1, in2 := filepath.Join(root, "usr/share/f"), usrOf(t, one)+"share/f", usrOf(t, two)+"share/f"
	open := func(path string, flags int) *os.File {
		t.Helper()
		f, err := os.OpenFile(path, flags, 0)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	read := func(path string) {
		t.Helper()
		f := open(path, os.O_RDONLY)
		_, err := f.Read(make([]byte, 10))
		must(t, err)
		mapped, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		must(t, err)
		must(t, unix.Munmap(mapped))
	}

	events := watch(t, in1, usrOf(t, one)+"share")
	read(node)
	read(in2)
	if n := events(); n != 0 {
		t.Errorf("a watch in a jail saw %d bytes of events from outside", n)
	}
	read(in1)
	if events() == 0 {
		t.Error("the watch saw nothing of its own jail's: this test sees nothing at all")
	}

	lock := func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
	must(t, lock(open(in1, os.O_RDONLY)))
	must(t, lock(open(in2, os.O_RDONLY)))
	must(t, lock(open(node, os.O_RDONLY)))
	if err := lock(open(in1, os.O_RDONLY)); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("a second lock in the same jail: %v", err)
	}

	// A lease makes who opens the file otherwise wait for its holder, who may take lease-break-time over it.
	if _, err := unix.FcntlInt(open(in1, os.O_RDONLY).Fd(), unix.F_SETLEASE, unix.F_RDLCK); err == nil {
		open(node, os.O_WRONLY|unix.O_NONBLOCK)
	}
}

// TestTheBaseCannotBeWritten: not with the mount's flag cleared either, which a jail's init may do.
func TestTheBaseCannotBeWritten(t *testing.T) {
	root, m := nodeWithFile(t)
	tree := create(t, m, CreateOptions{})
	for _, mnt := range tree.Mounts() {
		if mnt.Target == "/usr" {
			must(t, unix.MountSetattr(int(mnt.File.Fd()), "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
		}
	}
	for name, err := range map[string]error{
		"write":  second(os.OpenFile(usrOf(t, tree)+"share/f", os.O_WRONLY, 0)),
		"create": second(os.Create(usrOf(t, tree) + "share/new")),
		"remove": os.Remove(usrOf(t, tree) + "share/f"),
		"chmod":  os.Chmod(usrOf(t, tree)+"share/f", 0o777),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v, want EROFS", name, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(root, "usr/share/f")); err != nil || string(data) != "node" {
		t.Errorf("the node's file: %q %v", data, err)
	}
}

// TestTheBaseIsOneFileSystem: files and directories report one device, which find -xdev and tar --one-file-system ask for.
func TestTheBaseIsOneFileSystem(t *testing.T) {
	_, m := nodeWithFile(t)
	usr := usrOf(t, create(t, m, CreateOptions{}))
	if dir, file := lstat(t, usr+"share"), lstat(t, usr+"share/f"); dir.Dev != file.Dev {
		t.Errorf("devices %#x and %#x", dir.Dev, file.Dev)
	}
}

// TestTheBaseStacks: a container's /usr lies on an overlay already, and one more is as many as the kernel stacks.
func TestTheBaseStacks(t *testing.T) {
	_, m := nodeWithFile(t)
	dir, err := os.Open(m.node.path("usr"))
	must(t, err)
	defer dir.Close()
	for depth := 1; depth <= 3; depth++ {
		mnt, err := mountBase(dir, m.empty)
		if depth == 3 {
			if !errors.Is(err, unix.EINVAL) {
				t.Errorf("three overlays on each other: %v, want EINVAL", err)
			}
			break
		}
		must(t, err)
		defer mnt.Close()
		if data, err := os.ReadFile(fdPath(mnt) + "/share/f"); err != nil || string(data) != "node" {
			t.Errorf("depth %d: %q %v", depth, data, err)
		}
		dir = mnt
	}
}

// TestWithoutAStackableBaseTheCloneIsUsed: jobs run all the same.
func TestWithoutAStackableBaseTheCloneIsUsed(t *testing.T) {
	_, m := nodeWithFile(t)
	m.support.OwnBase = false
	tree := create(t, m, CreateOptions{})
	if data, err := os.ReadFile(usrOf(t, tree) + "share/f"); err != nil || string(data) != "node" {
		t.Errorf("%q %v", data, err)
	}
	if err := second(os.Create(usrOf(t, tree) + "share/new")); !errors.Is(err, unix.EROFS) {
		t.Errorf("create: %v, want EROFS", err)
	}
}

func second(f *os.File, err error) error {
	if err == nil {
		f.Close()
	}
	return err
}

// watch reports how many bytes of events about paths have come since it was called last.
func watch(t *testing.T, paths ...string) func() int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	for _, p := range paths {
		_, err := unix.InotifyAddWatch(fd, p, unix.IN_ALL_EVENTS)
		must(t, err)
	}
	return func() int {
		n, err := unix.Read(fd, make([]byte, 64<<10))
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		return max(n, 0)
	}
}
