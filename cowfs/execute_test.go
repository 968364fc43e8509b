package cowfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// TestProgramsRunAtOnce: a program can be executed as soon as WriteFile or a restore has put it into a tree, although this process starts
// others all the time, each of which has copies of its descriptors for a moment (ETXTBSY).
func TestProgramsRunAtOnce(t *testing.T) {
	hosttest.NotSlow(t, "900 processes")
	program, err := os.ReadFile("/usr/bin/true")
	must(t, err)
	m := newManager(t, withBucket(fileBucket(t), "a"))
	const each = 6
	options := func(n int, workspace bool) CreateOptions {
		o := CreateOptions{ID: fmt.Sprint("job-", n), Slot: uint32(n), IDBase: testIDBase + uint32(n)<<16}
		if workspace {
			o.Workspace = fmt.Sprint("ws-", n)
		}
		return o
	}
	write := func(tree *Tree) error { return tree.WriteFile("program", program, 0o755, JobID, JobID) }
	run := func(tree *Tree) error {
		// By its name: a child that is being started uses some of its copies' numbers for itself.
		upper, err := os.Readlink(fdPath(tree.upper))
		if err != nil {
			return err
		}
		return exec.Command(upper + "/workspace/program").Run()
	}

	written := make([]*Tree, each)
	for n := range each {
		written[n] = create(t, m, options(n, false))
		saved := create(t, m, options(each+n, true))
		must(t, write(saved))
		_, _, err := saved.Flush(context.Background(), FlushMeta{})
		must(t, err)
		must(t, saved.Discard())
	}
	var wg sync.WaitGroup
	for n := range each {
		wg.Go(func() {
			for range 100 {
				if err := write(written[n]); err != nil {
					t.Error(err)
				} else if err := run(written[n]); err != nil {
					t.Errorf("written: %v", err)
				}
			}
		})
		wg.Go(func() {
			o := options(each+n, true)
			for range 50 {
				// What Create does, without the mounts that come between the last file and the job's first instruction.
				tree := &Tree{m: m, record: record{ID: o.ID, Slot: o.Slot, IDBase: o.IDBase, Workspace: o.Workspace, Boot: m.node.boot}}
				err := tree.makeDirs()
				if err == nil {
					err = tree.restore(context.Background(), o)
				}
				if err == nil {
					err = run(tree)
				}
				if err = errors.Join(err, tree.Discard()); err != nil {
					t.Errorf("restored: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
