package cowfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// quotaImages are the file systems that an operator can give the agent for quotas.
var quotaImages = []struct {
	name, options string
	size          int64
	mkfs          []string
}{
	{"ext4", "prjquota", 256 << 20, []string{"mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota"}},
	{"xfs", "prjquota", 512 << 20, []string{"mkfs.xfs", "-q"}},
}

// TestQuota: the file system itself holds a tree to its limits, by bytes and by inodes, whoever writes, and lets go of them
// when the tree is gone.
func TestQuota(t *testing.T) {
	for _, image := range quotaImages {
		t.Run(image.name, func(t *testing.T) {
			t.Setenv("TOLBOOTH_TEST_STATE", hosttest.MountedImage(t, "prjquota", image.size, image.options, image.mkfs...))
			m := newManager(t, nil)
			if s := m.Support(); !s.Quota {
				t.Fatalf("no quota: %s", s.NoQuota)
			}
			tree := create(t, m, CreateOptions{ID: "one"})
			other := create(t, m, CreateOptions{ID: "two", Slot: 1, IDBase: testIDBase + idRange})
			if !tree.Quota() || tree.project == other.project {
				t.Fatalf("projects %d and %d", tree.project, other.project)
			}
			const bytes, inodes = 8 << 20, 100
			must(t, tree.Limit(bytes, inodes))
			must(t, other.Limit(bytes, inodes))

			must(t, reserve(inside(tree, "workspace/reserved"), bytes/4))
			if err := writeUntil(inside(tree, "workspace/big"), 3*bytes); !full(err) {
				t.Errorf("three times the limit: %v", err)
			}
			if used, _, err := tree.DiskUsage(context.Background()); err != nil || used > bytes+overlayOverhead.Bytes || used < bytes/2 {
				t.Errorf("used %d under a limit of %d, %v", used, bytes, err)
			}
			must(t, os.Remove(inside(tree, "workspace/big")))
			must(t, writeUntil(inside(tree, "workspace/again"), bytes/2))
			if err := reserve(inside(tree, "workspace/more"), 3*bytes); !full(err) {
				t.Errorf("three times the limit is reserved: %v", err)
			}

			made := 0
			err := error(nil)
			for ; made < 3*inodes && err == nil; made++ {
				err = second(os.Create(inside(other, fmt.Sprintf("workspace/f%d", made))))
			}
			if !full(err) || made > inodes+int(overlayOverhead.Inodes) {
				t.Errorf("%d files under a limit of %d: %v", made, inodes, err)
			}

			project := tree.project
			must(t, tree.Discard())
			must(t, other.Discard())
			use, err := projectUse(m.run, project)
			for end := time.Now().Add(hosttest.Slow(10 * time.Second)); err == nil && use != (Space{}) && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond) // xfs frees inodes behind
				use, err = projectUse(m.run, project)
			}
			if err != nil || use != (Space{}) {
				t.Errorf("after the tree: %+v %v", use, err)
			}
			next := create(t, m, CreateOptions{ID: "three"})
			must(t, writeUntil(inside(next, "workspace/free"), 2*bytes)) // no limit yet
		})
	}
}

func writeUntil(path string, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for range size >> 16 {
		if _, err := f.Write(make([]byte, 1<<16)); err != nil {
			return err
		}
	}
	return f.Sync()
}

func reserve(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), 0, 0, size)
}

func full(err error) bool { return errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOSPC) }

// TestWithoutQuotaTheProbeSaysWhy: a state directory on an ordinary file system.
func TestWithoutQuotaTheProbeSaysWhy(t *testing.T) {
	t.Setenv("TOLBOOTH_TEST_STATE", hosttest.Image(t, 64<<20, "noatime", "mkfs.ext4", "-q"))
	m := newManager(t, nil)
	if s := m.Support(); s.Quota || s.NoQuota == "" {
		t.Error("a file system without project quotas passes for one with them")
	}
	tree := create(t, m, CreateOptions{})
	if tree.Quota() {
		t.Error("a tree without a quota says it has one")
	}
	must(t, tree.Limit(1, 1))
}
