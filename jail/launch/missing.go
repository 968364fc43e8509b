package launch

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// What a jail has, for whoever made a virtual environment with an interpreter from elsewhere.
const notInJail = "which is not in the jail: it has the node's /usr, and in /workspace what the job or its workspace put there"

const (
	maxLinks = 40  // as in the kernel
	maxHead  = 256 // of a script, of which the kernel reads its first line (BINPRM_BUF_SIZE)
)

// absent tells whether there is nothing at all by that name, not even a link that leads nowhere.
func absent(name string) bool {
	var st unix.Stat_t
	err := unix.Lstat(name, &st)
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// deadLink says in words where a link leads that leads nowhere; "" when that is not why a file is missing.
func deadLink(name string) string {
	end := name
	for range maxLinks {
		var target [unix.PathMax]byte
		n, err := unix.Readlink(end, target[:])
		if err != nil {
			break
		}
		if to := string(target[:n]); path.IsAbs(to) {
			end = to
		} else {
			end = path.Dir(end) + "/" + to // not cleaned: what is before a .. may be a link too
		}
	}
	if end == name || !absent(end) {
		return ""
	}
	return fmt.Sprintf(", it is a link that leads to %s, %s", quoted(end), notInJail)
}

// noInterpreter explains a file that is there and for which execve(2) says that something is not. For a script that is the
// interpreter of its first line, for a program its loader.
func noInterpreter(program string) string {
	name := interpreter(program)
	if name == "" {
		return ", the file is there but the loader that it names is not: it was built for another system"
	}
	why := ", which is there, but not what that needs to run"
	if absent(name) {
		why = ", " + notInJail
	} else if words := deadLink(name); words != "" {
		why = words
	}
	return ", its first line names the interpreter " + quoted(name) + why
}

// interpreter reads the name of a script's interpreter; "" when the file is no script. Only the program's own rights are left.
func interpreter(script string) string {
	fd, err := unix.Open(script, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	head := make([]byte, maxHead)
	n, err := unix.Read(fd, head)
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	rest, found := bytes.CutPrefix(line, []byte("#!"))
	if !found {
		return ""
	}
	name := bytes.TrimLeft(rest, " \t")
	if end := bytes.IndexAny(name, " \t"); end >= 0 {
		name = name[:end]
	}
	return string(name)
}

// quoted is what a job chose, fit for a message.
func quoted(s string) string { return strconv.Quote(s[:min(len(s), 128)]) }
