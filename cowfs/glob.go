package cowfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/fdwalk"
)

// Bounds of one Glob: a workspace may hold anything.
const (
	globEntries = 200_000
	globMatches = 10_000
	globDepth   = 64
	globTime    = 5 * time.Second
)

// Glob lists the regular files below /workspace that match any of patterns (relative; *, ?, [], {}, ** for any number of
// directories), ordered by path. Symbolic links are neither followed nor listed. When one of the bounds (200,000 entries
// seen, 10,000 matches, 64 directories deep, 5 seconds) is met, the files found so far come with ErrTooLarge.
func (t *Tree) Glob(ctx context.Context, patterns []string) ([]FileInfo, error) {
	var plain []string
	for _, p := range patterns {
		list, err := checkPattern(p)
		if err != nil {
			return nil, err
		}
		plain = append(plain, list...)
	}
	if len(patterns) == 0 {
		return nil, nil
	}
	base, err := t.open("workspace", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer base.Close()
	ctx, cancel := context.WithTimeout(ctx, globTime)
	defer cancel()
	g := globber{ctx: ctx, patterns: plain}
	err = g.walk(base, "", 0)
	slices.SortFunc(g.found, func(a, b FileInfo) int { return strings.Compare(a.Path, b.Path) })
	return g.found, err
}

// CheckPattern says what is wrong with a pattern of Glob.
func CheckPattern(p string) error {
	_, err := checkPattern(p)
	return err
}

// checkPattern returns the pattern without braces.
func checkPattern(p string) ([]string, error) {
	if p == "" || strings.HasPrefix(p, "/") || len(p) > maxPath || !doublestar.ValidatePattern(p) {
		return nil, fmt.Errorf("%w: pattern %s (want a glob relative to the workspace)", ErrPath, quote(p))
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		return nil, fmt.Errorf(`%w: pattern %s contains ".."`, ErrPath, quote(p))
	}
	return alternatives(p)
}

type globber struct {
	ctx      context.Context
	patterns []string
	seen     int
	found    []FileInfo
}

func (g *globber) walk(dir *os.File, prefix string, depth int) error {
	names, err := fdwalk.Names(dir, globEntries-g.seen)
	if errors.Is(err, fdwalk.ErrTooMany) {
		return fmt.Errorf("%w: more than %d entries", ErrTooLarge, globEntries)
	}
	if err != nil {
		return err
	}
	g.seen += len(names)
	slices.Sort(names)
	for _, name := range names {
		if err := g.late(); err != nil {
			return err
		}
		if err := g.visit(dir, prefix+name, name, depth); err != nil {
			return err
		}
	}
	return nil
}

// late ends a walk whose time is over: a hundred patterns are slow to compare with each of many names.
func (g *globber) late() error {
	if err := g.ctx.Err(); err != nil {
		return fmt.Errorf("%w: looking for outputs took too long: %w", ErrTooLarge, err)
	}
	return nil
}

func (g *globber) visit(dir *os.File, rel, name string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ignoreMissing(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if !g.mayHold(rel) {
			return nil
		}
		if depth >= globDepth {
			return fmt.Errorf("%w: directories more than %d deep", ErrTooLarge, globDepth)
		}
		sub, err := openBelow(dir, name)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
			return nil // swapped by the job, or a mount of the jail's own
		}
		if err != nil {
			return err
		}
		defer sub.Close()
		return g.walk(sub, rel+"/", depth+1)
	case unix.S_IFREG:
		if !g.matches(rel) {
			return nil
		}
		if len(g.found) >= globMatches {
			return fmt.Errorf("%w: more than %d outputs", ErrTooLarge, globMatches)
		}
		g.found = append(g.found, FileInfo{Path: rel, Size: st.Size, Mode: os.FileMode(st.Mode & 0o777)})
	}
	return nil
}

// openBelow opens a directory of a hostile tree: no link, no other mount.
func openBelow(dir *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd, err := unix.Openat2(int(dir.Fd()), name, &how)
	if err != nil {
		return nil, fmt.Errorf("openat2 %s: %w", quote(name), err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (g *globber) matches(rel string) bool {
	return slices.ContainsFunc(g.patterns, func(p string) bool { return doublestar.MatchUnvalidated(p, rel) })
}

// mayHold says whether anything below the directory rel could match.
func (g *globber) mayHold(rel string) bool {
	names := strings.Split(rel, "/")
	return slices.ContainsFunc(g.patterns, func(p string) bool {
		parts := strings.Split(p, "/")
		depth := len(names)
		if rest := slices.Index(parts, "**"); rest >= 0 { // from there on any depth may match
			depth = min(depth, rest)
		} else if len(parts) <= depth {
			return false
		}
		return doublestar.MatchUnvalidated(strings.Join(parts[:depth], "/"), strings.Join(names[:depth], "/"))
	})
}
