package cowfs

import (
	"errors"
	"os"
	"testing"
)

func TestRemoveTakesOneNameAndFollowsNoLink(t *testing.T) {
	tree := create(t, newManager(t, nil), CreateOptions{})
	must(t, tree.WriteFile("code.py", []byte("x"), 0o644, JobID, JobID))
	must(t, tree.WriteFile("kept", []byte("x"), 0o644, JobID, JobID))
	must(t, os.Symlink("kept", inside(tree, "workspace/link")))
	must(t, os.Mkdir(inside(tree, "workspace/dir"), 0o755))

	for _, p := range []string{"code.py", "link", "code.py", "never/was/there"} {
		must(t, tree.Remove(p))
	}
	for _, p := range []string{"code.py", "link"} {
		if _, err := os.Lstat(inside(tree, "workspace/"+p)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", p, err)
		}
	}
	if _, err := os.Lstat(inside(tree, "workspace/kept")); err != nil {
		t.Errorf("the link was followed: %v", err)
	}
	if err := tree.Remove("dir"); err == nil {
		t.Error("a directory was removed")
	}
	if err := tree.Remove("../../etc/../../x"); err == nil {
		t.Error("a path that climbs was taken")
	}
}
