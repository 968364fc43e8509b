package cowfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestCreateMakesTheTreeOfAJobAndDiscardLeavesNothing(t *testing.T) {
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})

	for path, want := range map[string]struct {
		mode uint32
		id   uint32
	}{
		".":          {unix.S_IFDIR | 0o755, 0},
		"workspace":  {unix.S_IFDIR | 0o755, JobID},
		"etc/passwd": {unix.S_IFREG | 0o644, 0},
		"tmp":        {unix.S_IFDIR | 0o755, 0},
		"var/tmp":    {unix.S_IFDIR | unix.S_ISVTX | 0o777, 0},
	} {
		st := lstat(t, inside(tree, path))
		if st.Mode != want.mode || st.Uid != testIDBase+want.id || st.Gid != testIDBase+want.id {
			t.Errorf("/%s: mode %o owner %d:%d, want %o %d", path, st.Mode, st.Uid, st.Gid, want.mode, testIDBase+want.id)
		}
	}
	if st := lstat(t, inside(tree, "etc/ssl/certs")); st.Uid != 0 || st.Mode != unix.S_IFDIR|0o755 {
		t.Errorf("/etc/ssl/certs: mode %o owner %d, want the host's root", st.Mode, st.Uid)
	}
	if _, err := os.Lstat(inside(tree, "etc/shadow")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("etc/shadow is in the jail: %v", err)
	}
	if target, err := os.Readlink(inside(tree, "bin")); err == nil && target != "usr/bin" {
		t.Errorf("/bin points to %s", target)
	}
	if got := tree.Mounts()[0].Target; got != "/usr" {
		t.Errorf("first mount is %s", got)
	}

	if err := tree.Discard(); err != nil {
		t.Fatal(err)
	}
	if err := tree.Discard(); err != nil {
		t.Errorf("second discard: %v", err)
	}
	wantEmpty(t, m.run.Name())
	wantEmpty(t, m.trash.Name())
}

func wantEmpty(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("%s: %v %v, want it empty", dir, entries, err)
	}
}

func TestDevHasSixNodesAndCannotBeWritten(t *testing.T) {
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})
	mounts := tree.Mounts()
	dev := fdPath(mounts[len(mounts)-1].File)
	devices := 0
	entries, err := os.ReadDir(dev)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type()&os.ModeDevice != 0 {
			devices++
		}
	}
	if devices != len(deviceNodes) {
		t.Errorf("%d devices in /dev, want %d", devices, len(deviceNodes))
	}
	if err := os.WriteFile(filepath.Join(dev, "null"), []byte("x"), 0); err != nil {
		t.Errorf("write to /dev/null: %v", err)
	}
	// Even with the mount's own flag cleared, as a jail's init could.
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(int(mounts[len(mounts)-1].File.Fd()), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dev, "x"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("write into /dev: %v, want EROFS", err)
	}
	if err := os.WriteFile(filepath.Join(fdPath(mounts[0].File), "x"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("write into /usr: %v, want EROFS", err)
	}
}

func TestNobodyCanMakeAWhiteout(t *testing.T) {
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})
	if err := unix.Mknod(inside(tree, "workspace/w"), unix.S_IFCHR|0o666, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("mknod c 0 0: %v, want EPERM", err)
	}
	must(t, os.WriteFile(inside(tree, "workspace/f"), nil, 0o644))
	err := unix.Renameat2(unix.AT_FDCWD, inside(tree, "workspace/f"), unix.AT_FDCWD, inside(tree, "workspace/g"), unix.RENAME_WHITEOUT)
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("renameat2 (RENAME_WHITEOUT): %v, want EINVAL", err)
	}
}

func TestTreesDoNotShareAnything(t *testing.T) {
	m := newManager(t, nil)
	a := create(t, m, CreateOptions{ID: "a"})
	b := create(t, m, CreateOptions{ID: "b"})
	if err := a.WriteFile("x", []byte("a"), 0o644, JobID, JobID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.ReadFile("x", 10); !errors.Is(err, ErrNotFound) {
		t.Errorf("b reads a's file: %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})
	ws := inside(tree, "workspace")
	must(t, os.Mkdir(ws+"/real", 0o755))
	must(t, os.Chown(ws+"/real", testIDBase+JobID, testIDBase+JobID))
	must(t, os.Symlink("/workspace/real", ws+"/link"))
	must(t, os.Symlink("/etc", ws+"/toetc"))
	must(t, os.Symlink("../../../../../../../etc", ws+"/uptoetc"))
	must(t, os.Symlink("/tmp", ws+"/totmp"))
	must(t, os.Symlink("/proc/self/root", ws+"/magic"))
	must(t, os.Symlink("/nowhere", ws+"/dangling"))
	must(t, os.Symlink("loop", ws+"/loop"))
	must(t, os.Symlink("/etc/passwd", ws+"/topasswd"))
	must(t, unix.Mkfifo(ws+"/pipe", 0o666))
	must(t, os.Mkdir(ws+"/dir", 0o755))
	must(t, os.WriteFile(ws+"/plain", nil, 0o644))
	long := strings.Repeat("x", 256)

	for _, test := range []struct {
		path string
		uid  uint32
		want error
		at   string // where the file must be afterwards
	}{
		{"a.txt", JobID, nil, "workspace/a.txt"},
		{"./b//c/../d", JobID, ErrPath, ""},
		{"new/deep/file", JobID, nil, "workspace/new/deep/file"},
		{"/workspace/abs", JobID, nil, "workspace/abs"},
		{"link/through", JobID, nil, "workspace/real/through"},
		{"topasswd", JobID, nil, "workspace/topasswd"}, // the link is replaced
		{"plain", JobID, nil, "workspace/plain"},
		{"/var/tmp/x", JobID, nil, "var/tmp/x"},
		{"bad\xff\nname", JobID, nil, "workspace/bad\xff\nname"},
		{"/etc/evil", JobID, ErrNotWritable, ""},
		{"toetc/evil", JobID, ErrNotWritable, ""},
		{"uptoetc/evil", JobID, ErrNotWritable, ""},
		{"/etc/new/evil", JobID, ErrNotWritable, ""},
		{"/tmp/x", JobID, ErrNotWritable, ""},
		{"totmp/x", JobID, ErrNotWritable, ""},
		{"/dev/x", JobID, ErrNotWritable, ""},
		{"/x", JobID, ErrNotWritable, ""},
		{"magic/etc/x", JobID, ErrPath, ""}, // nothing is mounted at /proc in this view
		{"dangling/x", JobID, ErrPath, ""},
		{"loop/x", JobID, ErrPath, ""},
		{"plain/x", JobID, ErrPath, ""},
		{"pipe", JobID, ErrNotRegular, ""},
		{"pipe/x", JobID, ErrPath, ""},
		{"dir", JobID, ErrNotRegular, ""},
		{"../x", JobID, ErrPath, ""},
		{"a/../../x", JobID, ErrPath, ""},
		{"", JobID, ErrPath, ""},
		{"nul\x00", JobID, ErrPath, ""},
		{long, JobID, ErrPath, ""},
		{"/", JobID, ErrNotWritable, ""},
		{"/", 0, ErrPath, ""},
		{"/etc/hosts", 0, nil, "etc/hosts"},
	} {
		t.Run(fmt.Sprintf("%.20q", test.path), func(t *testing.T) {
			err := tree.WriteFile(test.path, []byte("content"), 0o640, test.uid, test.uid)
			if !errors.Is(err, test.want) || (test.want == nil) != (err == nil) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if test.want != nil {
				return
			}
			st := lstat(t, inside(tree, test.at))
			if st.Mode != unix.S_IFREG|0o640 || st.Uid != testIDBase+test.uid || st.Gid != testIDBase+test.uid {
				t.Errorf("mode %o owner %d:%d", st.Mode, st.Uid, st.Gid)
			}
			data, err := os.ReadFile(inside(tree, test.at))
			if err != nil || string(data) != "content" {
				t.Errorf("content %q %v", data, err)
			}
		})
	}
	if st := lstat(t, ws+"/new/deep"); st.Uid != testIDBase+JobID || st.Mode != unix.S_IFDIR|0o755 {
		t.Errorf("parent: mode %o owner %d", st.Mode, st.Uid)
	}
	// No temporary file is left, whatever failed.
	must(t, filepath.WalkDir(inside(tree, "."), func(p string, _ os.DirEntry, err error) error {
		if strings.Contains(p, ".tolbooth-") {
			t.Errorf("left behind: %s", p)
		}
		return err
	}))
}

func TestSynthesizedFilesLeaveTheDirectoryTimeAlone(t *testing.T) {
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})
	before := lstat(t, inside(tree, "etc"))
	must(t, tree.WriteFile("/etc/hosts", []byte("x"), 0o644, 0, 0))
	if after := lstat(t, inside(tree, "etc")); after.Mtim != before.Mtim {
		t.Errorf("mtime of /etc went from %v to %v", before.Mtim, after.Mtim)
	}
}

func TestReadFileAndGlobOfAHostileWorkspace(t *testing.T) {
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})
	ws := inside(tree, "workspace")
	canary := filepath.Join(t.TempDir(), "canary")
	must(t, os.WriteFile(canary, []byte("host"), 0o644))

	must(t, os.WriteFile(ws+"/real.txt", []byte("real"), 0o644))
	must(t, os.Symlink(canary, ws+"/out.txt"))
	must(t, os.Symlink("/", ws+"/rootdir"))
	must(t, os.Symlink("/proc/self/root", ws+"/r"))
	must(t, os.Symlink("../../../../../../..", ws+"/up"))
	must(t, os.Symlink("loop", ws+"/loop"))
	must(t, os.Symlink("/workspace/real.txt", ws+"/legal"))
	must(t, unix.Mkfifo(ws+"/pipe", 0o666))
	must(t, unix.Mknod(ws+"/sock", unix.S_IFSOCK|0o666, 0))
	must(t, os.WriteFile(ws+"/sparse", nil, 0o644))
	must(t, os.Truncate(ws+"/sparse", 1<<40))
	must(t, os.WriteFile(ws+"/new\nline", nil, 0o644))
	must(t, os.WriteFile(ws+"/bad\xff", nil, 0o644))
	must(t, os.WriteFile(ws+"/-rf", nil, 0o644))
	must(t, os.MkdirAll(ws+"/sub/dir", 0o755))
	must(t, os.WriteFile(ws+"/sub/dir/deep.txt", []byte("deep"), 0o000))

	for path, want := range map[string]error{
		"out.txt": ErrNotFound, "rootdir": ErrNotRegular, "r/etc/passwd": ErrNotFound, "up" + canary: ErrNotFound,
		"loop": ErrPath, "pipe": ErrNotRegular, "sock": ErrNotRegular, "sparse": ErrTooLarge, "missing": ErrNotFound,
		"legal": nil, "bad\xff": nil, "new\nline": nil, "-rf": nil, "sub/dir/deep.txt": nil, "sub": ErrNotRegular,
	} {
		start := time.Now()
		_, _, err := tree.ReadFile(path, 1<<20)
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("read %q: %v, want %v", path, err, want)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("read %q took %v", path, d)
		}
	}
	for pattern, want := range map[string]string{
		"*.txt":                            "real.txt",
		"**/*.txt":                         "real.txt sub/dir/deep.txt",
		"sub/*":                            "",
		"sub/dir/*":                        "sub/dir/deep.txt",
		"rootdir/**":                       "",
		"pipe":                             "",
		"sparse":                           "sparse",
		"{bad,new}*":                       "bad\xff new\nline",
		"{s{u,},x}b/{dir,}/*.{t[x,}]t,md}": "sub/dir/deep.txt",
	} {
		found, err := tree.Glob(context.Background(), []string{pattern})
		if err != nil {
			t.Errorf("glob %q: %v", pattern, err)
		}
		var paths []string
		for _, f := range found {
			paths = append(paths, f.Path)
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("glob %q: %q, want %q", pattern, got, want)
		}
	}
	for _, bad := range []string{"/etc/*", "../*", "", "[", "a/../../b", strings.Repeat("{a,a}", 40) + "b", strings.Repeat("*{a,b}", 7)} {
		if _, err := tree.Glob(context.Background(), []string{bad}); !errors.Is(err, ErrPath) {
			t.Errorf("glob %q: %v, want ErrPath", bad, err)
		}
	}
	// A tree that is too deep is said to be, with what was found before.
	must(t, os.MkdirAll(ws+"/z/"+strings.Repeat("d/", 200), 0o755))
	found, err := tree.Glob(context.Background(), []string{"**/*.txt"})
	if !errors.Is(err, ErrTooLarge) || len(found) != 2 {
		t.Errorf("glob of a deep tree: %v %v", found, err)
	}
}

func TestDiskUsageAndDiscardOfADeepTree(t *testing.T) {
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})
	const depth = 10_000
	dir, err := fdwalk.OpenDir(tree.Root(), "workspace")
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(int(dir.Fd()), "d", 0o000))
		sub, err := fdwalk.OpenDir(dir, "d")
		must(t, err)
		dir.Close()
		dir = sub
	}
	dir.Close()
	must(t, os.WriteFile(inside(tree, "workspace/f"), make([]byte, 1<<20), 0o644))
	must(t, os.Link(inside(tree, "workspace/f"), inside(tree, "workspace/g")))
	bytes, inodes, err := tree.DiskUsage(context.Background())
	if err != nil || inodes != depth+2 || bytes < 1<<20 || bytes > 1<<20+(depth+2)*4096 {
		t.Errorf("usage %d bytes %d inodes %v", bytes, inodes, err)
	}
	must(t, tree.Discard())
	wantEmpty(t, m.run.Name())
	waitEmpty(t, m.trash.Name())
}

// TestDiscardOfALargeTreeDoesNotBlock: neither the job that left it nor the next ones wait for two hundred thousand names
// in one directory, and they are gone in the end.
func TestDiscardOfALargeTreeDoesNotBlock(t *testing.T) {
	hosttest.NotSlow(t, "200,000 names")
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})
	full := fdPath(tree.upper) + "/workspace/full"
	must(t, os.MkdirAll(full, 0o755))
	const linksAFile = 50_000 // a name is cheaper than a file; ext4 gives one at most 65,000
	for i := range 200_000 {
		first := fmt.Sprintf("%s/%d", full, i/linksAFile*linksAFile)
		if i%linksAFile == 0 {
			must(t, os.WriteFile(first, nil, 0o644))
		} else {
			must(t, unix.Link(first, fmt.Sprintf("%s/%d", full, i)))
		}
	}
	quick := func(what string, f func()) {
		t.Helper()
		start := time.Now()
		f()
		if d := time.Since(start); d > 500*time.Millisecond {
			t.Errorf("%s took %v", what, d)
		}
	}
	quick("the discard", func() { must(t, tree.Discard()) })
	wantEmpty(t, m.run.Name())
	for i := range uint32(5) {
		quick("a tree while the old one is removed", func() {
			next := create(t, m, CreateOptions{ID: fmt.Sprintf("next-%d", i), Slot: 1 + i, IDBase: testIDBase + idRange*(1+i)})
			must(t, next.WriteFile("f", []byte("x"), 0o644, JobID, JobID))
			must(t, next.Discard())
		})
	}
	if entries, err := os.ReadDir(m.trash.Name()); err != nil || len(entries) == 0 {
		t.Errorf("the old tree was removed before the new ones were made: this test shows nothing (%v)", err)
	}
	waitEmpty(t, m.trash.Name())
}

func waitEmpty(t testing.TB, dir string) {
	t.Helper()
	for range 600 {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%s does not become empty", dir)
}

func TestProbeNamesTheFileSystemThatCannotHoldUppers(t *testing.T) {
	m := newManager(t, nil)
	tree := create(t, m, CreateOptions{})
	state := inside(tree, "workspace/state")
	_, err := Open(Options{StateDir: state})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "lies on overlay") {
		t.Errorf("open on an overlay: %v", err)
	}
	left, err := os.ReadDir(state)
	must(t, err)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "probe-") {
			t.Errorf("probe left %s", e.Name())
		}
	}
}

func TestSkeletonIsBuiltOncePerSlotAndVersion(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"usr/bin", "etc/ssl/certs", "lib"} {
		must(t, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	must(t, os.Symlink("usr/bin", filepath.Join(root, "bin")))
	must(t, os.WriteFile(filepath.Join(root, "etc/ssl/certs/a.pem"), []byte("one"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "etc/ssl/certs/secret.pem"), []byte("one"), 0o600))
	must(t, os.WriteFile(filepath.Join(root, "etc/shadow"), []byte("one"), 0o644))
	state := ""
	names := func() []string {
		m := newManager(t, func(o *Options) {
			if state == "" {
				state = o.StateDir
			}
			o.StateDir, o.NodeRoot = state, root
		})
		tree := create(t, m, CreateOptions{ID: "x"})
		if _, err := os.Lstat(inside(tree, "etc/ssl/certs/secret.pem")); err == nil {
			t.Error("a file that not everyone may read is in the skeleton")
		}
		if st := lstat(t, inside(tree, "etc/ssl/certs")); st.Uid != 0 || st.Mode != unix.S_IFDIR|0o755 {
			t.Errorf("/etc/ssl/certs: mode %o owner %d, want the host's root", st.Mode, st.Uid)
		}
		if _, err := os.Lstat(inside(tree, "etc/shadow")); err == nil {
			t.Error("shadow is in the skeleton")
		}
		if len(tree.Mounts()) != 3 || tree.Mounts()[1].Target != "/lib" {
			t.Errorf("mounts %v, want /usr /lib /dev", tree.Mounts())
		}
		must(t, tree.Discard())
		entries, err := os.ReadDir(m.skel.Name())
		must(t, err)
		var names []string
		for _, e := range entries {
			if e.Name() != emptyName {
				names = append(names, e.Name())
			}
		}
		return names
	}
	first, second := names(), names()
	if len(first) != 2 || fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("skeletons %v, then %v", first, second)
	}
	must(t, os.Mkdir(filepath.Join(state, "skel/tmp-half"), 0o700))
	must(t, os.Mkdir(filepath.Join(state, "skel/common-anotherb-x"), 0o700))
	must(t, os.Mkdir(filepath.Join(state, "skel/0-old"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, "etc/ssl/certs/a.pem"), []byte("two"), 0o644))
	third := names()
	if len(third) != 3 || !slices.Contains(third, first[0]) || !slices.Contains(third, first[1]) {
		t.Errorf("after a change of the node: %v, want a second common layer beside %v", third, first)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
