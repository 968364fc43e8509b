package launch

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// baseDirs are the directories in which the writable ones do not lie: what the job cannot change. Links are left out: what they
// lead to counts.
func baseDirs(dir string, writable []string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the directories of the base: %w", err)
	}
	var base []string
	for _, e := range entries {
		below := path.Join(dir, e.Name())
		holds := func(w string) bool { return strings.HasPrefix(w, below+"/") }
		switch {
		case !e.IsDir() || slices.Contains(writable, below):
		case slices.ContainsFunc(writable, holds):
			deeper, err := baseDirs(below, writable)
			if err != nil {
				return nil, err
			}
			base = append(base, deeper...)
		default:
			base = append(base, below)
		}
	}
	return base, nil
}
