package cowfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// nodeLower is what jails see of the node: read once, so that every skeleton of one agent is the same.
type nodeLower struct {
	slot   []skelEntry     // made for each slot, of its ids; parents before children
	common []skelEntry     // made once, of the host's root
	dirs   map[string]bool // in common
	clones []string        // directories that are mounted beside the skeleton, relative to the node's root: "usr", …
	root   string
	boot   string // boot id: a skeleton that was not synced is never trusted after a power loss
}

// skelEntry is one entry of a skeleton.
type skelEntry struct {
	path string
	mode fs.FileMode // type and permissions
	data string      // content of a file, target of a link
	id   uint32      // jail uid and gid
}

// systemDirs are links into /usr on merged systems and directories elsewhere.
var systemDirs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// etcFiles are copied from the node when they exist and anyone may read them. Nothing here may hold a secret or name a
// person: no shadow, no ssh, no configuration of package managers (tokens), no ld.so.preload.
var etcFiles = []string{
	"ld.so.cache", "ld.so.conf", "localtime", "timezone", "mime.types", "services", "protocols", "rpc", "ethers",
	"host.conf", "gai.conf", "os-release", "debian_version", "lsb-release", "redhat-release", "alpine-release",
	"locale.alias", "locale.conf", "magic", "magic.mime", "mailcap", "matplotlibrc", "inputrc", "bash.bashrc", "profile",
	"X11/rgb.txt", "maven/m2.conf",
	"ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates.conf", "pki/tls/cert.pem", "pki/tls/openssl.cnf",
}

// etcDirs are copied with everything below that anyone may read. Patterns, since versions are part of the names.
var etcDirs = []string{
	"alternatives", "ld.so.conf.d", "ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted", "ca-certificates",
	"fonts", "terminfo", "perl", "python[0-9]*", "java-*", "jvm-*", "R", "ImageMagick-*", "OpenCL", "X11/locale",
	"groff", "maven/logging",
}

const (
	maxEtcFile    = 4 << 20
	maxEtcEntries = 20_000
)

// readNode collects the skeleton's entries below root, the node's root directory.
func readNode(root string) (*nodeLower, error) {
	n := &nodeLower{root: root, dirs: map[string]bool{}}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	n.boot = strings.TrimSpace(string(boot))

	for _, d := range []struct {
		path string
		mode fs.FileMode
		id   uint32
	}{
		{"dev", 0o755, 0}, {"etc", 0o755, 0}, {"home", 0o755, 0}, {"proc", 0o555, 0}, {"root", 0o700, 0},
		{"run", 0o755, 0}, {"sys", 0o555, 0}, {"tmp", 0o755, 0}, {"usr", 0o755, 0}, {"var", 0o755, 0},
		{"var/cache", 0o755, 0}, {"var/lib", 0o755, 0}, {"var/log", 0o755, 0},
		{"var/tmp", 0o777 | fs.ModeSticky, 0}, {"workspace", 0o755, JobID},
	} {
		n.slot = append(n.slot, skelEntry{path: d.path, mode: fs.ModeDir | d.mode, id: d.id})
	}
	n.slot = append(n.slot, linkEntry("var/run", "/run"), linkEntry("var/lock", "/run/lock"))
	n.clones = []string{"usr"}
	if err := n.systemDirs(); err != nil {
		return nil, err
	}
	made := synthesized(root)
	for _, name := range slices.Sorted(maps.Keys(made)) {
		n.slot = append(n.slot, skelEntry{path: "etc/" + name, mode: 0o644, data: made[name]})
	}
	if err := n.etc(); err != nil {
		return nil, err
	}
	return n, nil
}

// JobID is the uid and gid of the user's program in every jail.
const JobID = 1000

// synthesized are the files of /etc that say the same in every jail. The node's own nsswitch.conf may name services that
// are not reachable from a jail, so it is not copied.
func synthesized(root string) map[string]string {
	shell := "/bin/sh"
	if _, err := os.Stat(filepath.Join(root, "bin/bash")); err == nil {
		shell = "/bin/bash"
	}
	return map[string]string{
		"passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n" +
			"sandbox:x:1000:1000:sandbox:/workspace:" + shell + "\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"group":         "root:x:0:\ntty:x:5:\nsandbox:x:1000:\nnogroup:x:65534:\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nservices: files\nprotocols: files\nethers: files\nrpc: files\n",
		"hosts":         "127.0.0.1\tlocalhost\n::1\tlocalhost\n",
		"hostname":      "tolbooth\n",
		"resolv.conf":   "",
	}
}

// systemDirs takes /bin, /lib and such over as the node has them.
func (n *nodeLower) systemDirs() error {
	for _, name := range systemDirs {
		info, err := os.Lstat(filepath.Join(n.root, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(filepath.Join(n.root, name))
			if err != nil {
				return err
			}
			n.slot = append(n.slot, linkEntry(name, target))
		case info.IsDir():
			n.slot = append(n.slot, skelEntry{path: name, mode: fs.ModeDir | 0o755})
			n.clones = append(n.clones, name)
		default:
			return fmt.Errorf("/%s is neither a directory nor a link", name)
		}
	}
	return nil
}

func (n *nodeLower) etc() error {
	for _, name := range etcFiles {
		if err := n.copy("etc/" + name); err != nil {
			return err
		}
	}
	for _, pattern := range etcDirs {
		matches, err := filepath.Glob(filepath.Join(n.root, "etc", pattern))
		if err != nil {
			return err
		}
		for _, match := range matches {
			err := filepath.WalkDir(match, func(p string, _ fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				rel, err := filepath.Rel(n.root, p)
				if err != nil {
					return err
				}
				return n.copy(rel)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// copy takes one entry of the node over. Missing entries, entries that not everyone may read, and special files are
// left out: which of them exist differs from node to node.
func (n *nodeLower) copy(rel string) error {
	if len(n.common) > maxEtcEntries {
		return fmt.Errorf("more than %d entries in the chosen parts of /etc", maxEtcEntries)
	}
	src := filepath.Join(n.root, rel)
	info, err := os.Lstat(src)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		// Translated manual pages make up most of /etc/alternatives and are of no use in a jail.
		if strings.HasPrefix(rel, "etc/alternatives/") && strings.HasPrefix(target, "/usr/share/man/") {
			return nil
		}
		n.parents(rel)
		n.common = append(n.common, linkEntry(rel, target))
		return nil
	}
	if info.Mode().Perm()&0o004 == 0 {
		return nil
	}
	switch {
	case info.IsDir():
		n.parents(rel + "/x")
	case info.Mode().IsRegular():
		if info.Size() > maxEtcFile {
			return fmt.Errorf("%s has %d bytes, more than %d", src, info.Size(), maxEtcFile)
		}
		data, err := os.ReadFile(src)
		if err != nil {
			return err
		}
		n.parents(rel)
		mode := fs.FileMode(0o644)
		if info.Mode().Perm()&0o111 != 0 {
			mode = 0o755
		}
		n.common = append(n.common, skelEntry{path: rel, mode: mode, data: string(data)})
	}
	return nil
}

// parents adds the directories above rel that are not there yet.
func (n *nodeLower) parents(rel string) {
	dir := path.Dir(rel)
	if dir == "." || n.dirs[dir] {
		return
	}
	n.parents(dir)
	n.dirs[dir] = true
	n.common = append(n.common, skelEntry{path: dir, mode: fs.ModeDir | 0o755})
}

func linkEntry(p, target string) skelEntry {
	return skelEntry{path: p, mode: fs.ModeSymlink | 0o777, data: target}
}

// path is where the directory name of the node lies on the host.
func (n *nodeLower) path(name string) string { return filepath.Join(n.root, name) }
