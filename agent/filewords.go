package agent

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// Where a denial comes from.
const (
	fromKernel = "kernel" // the kernel or tolbooth itself saw it
	fromOutput = "output" // the program said so, and a rule of ours agrees
)

// No hook of the kernel tells about refused file operations on every node that we run on, so they are read out of what the
// program printed. Its text can claim anything; a claim becomes a denial only when a rule of ours would have caused it,
// and it says where it comes from.

// maxFileDenials bounds how many different refusals of files one result lists.
const maxFileDenials = 64

// The rules about files, and why they are there.
const (
	whyReadOnly = "what is installed on the node is the same for every job and no job changes it; write below /workspace or /tmp, and install there (pip install --user or --target, npm install --prefix)"
	whyOutside  = "only /workspace, /tmp, /var/tmp, /run and /dev/shm can be changed, and the rest can be read as far as everyone may; put your files there, or send them in the request's files"
	whyProc     = "the kernel's own files show and take what an ordinary user may see and set; settings of the node and processes of other users are closed to every job"
	whyOneUser  = "a job has one user without capabilities, so no file can be given to another; leave owners out (tar --no-same-owner, cp without -a or -p)"
	whyNodeFull = "the disk of the node is full, which no limit of the job is about; run it on another node, and have the operator make room in the state directory"
	whyOwn      = "the request takes away the execution of what the job can write (policy.deny: " + policy.DenyExecOutsideBase + "); execute what is installed on the node, have an interpreter read the file, or leave that out"
	whyFurther  = "a result lists so many different refusals of files at most; these were like the ones listed"
)

// fileFacts are what a claim about files is held against.
type fileFacts struct {
	limits, most limits
	peak         int64 // bytes of memory that the job held at most; 0: not known
	inodes       int64 // files that it left
	quota        bool  // the file system itself holds the disk limits
	callsRefused bool  // system calls were refused with EPERM; such an error is theirs
	baseExecOnly bool  // the job denied itself programs of its own
	atMS         int64
}

// explain words the refusals that a program's output tells of.
func (f fileFacts) explain(streams ...[]byte) []api.Denial {
	var set denialSet
	further := api.Denial{Layer: "file", Rule: "file.further", What: "further refused file operations", Fix: noFix, Why: whyFurther, Evidence: fromOutput, AtMS: f.atMS}
	for _, output := range streams {
		for _, c := range complaints(output) {
			d, ok := f.word(c)
			if !ok {
				continue
			}
			d.Errno, d.Count, d.Evidence, d.AtMS = unix.ErrnoName(c.errno), 1, fromOutput, f.atMS
			if len(set.list) == maxFileDenials && !set.has(d) {
				further.Count++
				continue
			}
			set.add(d)
		}
	}
	if further.Count > 0 {
		set.add(further)
	}
	return set.list
}

// word finds the rule that a complaint agrees with.
func (f fileFacts) word(c complaint) (api.Denial, bool) {
	switch c.errno {
	case unix.EROFS:
		return f.readOnly(c)
	case unix.EACCES:
		if hasProgram(c.line, "mount", "umount") { // the refused call itself is listed
			return api.Denial{}, false
		}
		if d, ok := f.own(c); ok {
			return d, true
		}
		return f.outside(c)
	case unix.EPERM:
		if strings.Contains(c.line, "ownership") || strings.Contains(c.line, "chown") {
			return refusedFile("change the owner of "+nearest(c, "a file"), "file.one_user", whyOneUser), true
		}
		if f.callsRefused {
			return api.Denial{}, false
		}
		return f.outside(c)
	case unix.ENOSPC, unix.EDQUOT:
		return f.full(c)
	case unix.EMFILE:
		if strings.Contains(c.context, "inotify") || strings.Contains(c.context, "watch") { // a limit of the kernel's own
			return api.Denial{}, false
		}
		return f.limited("open_files", fmt.Sprintf("have more than %d files open in one process", f.limits.OpenFiles.Value)), true
	case unix.EFBIG:
		return f.limited("disk", fmt.Sprintf("make one file larger than limits.disk allows (%s)", quantity(f.limits.Disk.Value))), true
	}
	return api.Denial{}, false
}

func (f fileFacts) readOnly(c complaint) (api.Denial, bool) {
	if len(c.paths) == 0 { // only read-only mounts of ours give this error, whatever the file was
		return refusedFile("write below a read-only directory", "file.read_only_base", whyReadOnly), true
	}
	for _, p := range c.paths {
		switch regionOf(p) {
		case regionBase:
			return refusedFile("write "+shown(p), "file.read_only_base", whyReadOnly), true
		case regionProc:
			return refusedFile("write "+shown(p), "file.proc", whyProc), true
		}
	}
	return api.Denial{}, false
}

// own is about a program of the job's own, where the job denied itself those: nothing else of ours keeps it from its files.
func (f fileFacts) own(c complaint) (api.Denial, bool) {
	i := slices.IndexFunc(c.paths, func(p string) bool { r := regionOf(p); return r != regionBase && r != regionProc })
	switch {
	case !f.baseExecOnly || i < 0 && len(c.paths) > 0:
		return api.Denial{}, false
	case i < 0: // a relative path, which lies in the job's directory
		return refusedFile("execute a program outside the base", "policy."+policy.DenyExecOutsideBase, whyOwn), true
	}
	return refusedFile("execute "+shown(c.paths[i]), "policy."+policy.DenyExecOutsideBase, whyOwn), true
}

// outside is about a file that belongs to root. Whether it was to be read or written the error does not say.
func (f fileFacts) outside(c complaint) (api.Denial, bool) {
	for _, p := range c.paths {
		switch regionOf(p) {
		case regionBase:
			return refusedFile("open or change "+shown(p), "file.outside_writable", whyOutside), true
		case regionProc:
			return refusedFile("open or change "+shown(p), "file.proc", whyProc), true
		}
	}
	return api.Denial{}, false
}

func (f fileFacts) limited(limit, what string) api.Denial {
	return f.raise([]string{limit}, what, fmt.Sprintf("the job reached its %s limit, set by: %s; ask for more in the request, up to the node's cap", limit, f.limits.setBy(limit)))
}

// raise is a denial that more of some limits lifts. The first of them gives the rule its name.
func (f fileFacts) raise(names []string, what, why string) api.Denial {
	d := api.Denial{Layer: "limit", What: what, Rule: "limit." + names[0], Why: why}
	var atCap []string
	if d.Fix, atCap = raiseFix(f.limits, f.most, names...); len(atCap) > 0 {
		d.Why += "; the node allows no more of " + strings.Join(atCap, " and ")
	}
	return d
}

func refusedFile(what, rule, why string) api.Denial {
	return api.Denial{Layer: "file", What: what, Rule: rule, Fix: noFix, Why: why}
}

// region is a part of the file system that one rule is about.
type region string

const (
	regionTmp  region = "/tmp"
	regionRun  region = "/run"
	regionShm  region = "/dev/shm"
	regionDisk region = "/workspace"
	regionProc region = "/proc"
	regionBase region = "/"
)

// regionOf goes by the words of the path alone.
func regionOf(p string) region {
	p = path.Clean(p)
	for _, r := range []struct {
		top string
		in  region
	}{
		{"/tmp", regionTmp}, {"/run", regionRun}, {"/var/run", regionRun}, {"/dev/shm", regionShm},
		{"/workspace", regionDisk}, {"/var/tmp", regionDisk}, {"/proc", regionProc}, {"/sys", regionProc},
	} {
		if p == r.top || strings.HasPrefix(p, r.top+"/") {
			return r.in
		}
	}
	return regionBase
}

// hasProgram tells whether a message is one of these programs'.
func hasProgram(line string, names ...string) bool {
	name, _, _ := strings.Cut(line, ":")
	return slices.Contains(names, path.Base(name))
}

func nearest(c complaint, none string) string {
	if len(c.paths) == 0 {
		return none
	}
	return shown(c.paths[0])
}

// maxShown is how much of a path is shown.
const maxShown = 256

// shown makes a job's path fit for a line of text.
func shown(p string) string {
	if len(p) > maxShown {
		p = p[:maxShown] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(p, string(unicode.ReplacementChar)))
}
