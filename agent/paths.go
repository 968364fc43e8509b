package agent

import (
	"path"
	"strings"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// Bounds of the kernel on paths (limits.h).
const (
	maxPath      = 4095
	maxComponent = 255
)

// plainText refuses a NUL, which would end a string early for the kernel.
func plainText(field, s string) error {
	if strings.ContainsRune(s, 0) {
		return refuse(api.ClassInvalid, field, "contains a NUL character")
	}
	return nil
}

// jailPath checks a path of a request and returns it absolute in the jail: relative ones start at the workspace. A ".."
// is refused rather than resolved, since what it means depends on links that a job may have made.
func jailPath(field, p string) (string, error) {
	if p == "" {
		return "", refuse(api.ClassInvalid, field, "is empty")
	}
	if err := plainText(field, p); err != nil {
		return "", err
	}
	if len(p) > maxPath {
		return "", refuse(api.ClassInvalid, field, "is longer than %d bytes", maxPath)
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return "", refuse(api.ClassInvalid, field, `%s contains ".."`, quoted(p)).hint("write the path that it leads to")
		}
		if len(part) > maxComponent {
			return "", refuse(api.ClassInvalid, field, "has a name of more than %d bytes", maxComponent)
		}
	}
	if !path.IsAbs(p) {
		p = path.Join(workspaceDir, p)
	}
	return path.Clean(p), nil
}

// below tells whether p is dir or below it. Both are absolute and clean.
func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// underAny returns the one of dirs that p lies in, or "".
func underAny(p string, dirs ...string) string {
	for _, dir := range dirs {
		if below(p, dir) {
			return dir
		}
	}
	return ""
}

// workingDir checks the request's cwd. Directories of the kernel are no place to work in, and a descriptor of another
// process reached through /proc has been a way out of jails before (CVE-2024-21626).
func workingDir(cwd string) (string, error) {
	if cwd == "" {
		return workspaceDir, nil
	}
	p, err := jailPath("cwd", cwd)
	if err != nil {
		return "", err
	}
	if dir := underAny(p, "/proc", "/sys", "/dev"); dir != "" {
		return "", refuse(api.ClassInvalid, "cwd", "%s lies in %s, which is the kernel's", quoted(cwd), dir)
	}
	return p, nil
}
