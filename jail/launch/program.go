package launch

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// standardPath is where a command is looked up when its environment has no PATH.
const standardPath = "/usr/local/bin:/usr/bin:/bin"

// findProgram resolves the command and lays out what execve takes, so that nothing is left to do once the filter is on.
func findProgram(s *stage) error {
	program, err := lookUp(s.Command[0], s.Env)
	if s.BaseExecOnly && errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w; the policy denies execve_outside_base, so only programs of the base may be executed", err)
	}
	if err != nil {
		return err
	}
	s.program = program
	return s.layOut()
}

// lookUp resolves a name as a shell does: with a slash it is a path, else PATH is searched, and a file that may not be
// executed is passed over.
func lookUp(name string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, executable(name)
	}
	path := standardPath
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
			break // the first one counts, as in getenv(3)
		}
	}
	var passed error
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "." // execvp(3)
		}
		candidate := dir + "/" + name
		err := executable(candidate)
		if err == nil {
			return candidate, nil
		}
		if passed == nil && !absent(candidate) {
			passed = err
		}
	}
	if passed != nil {
		return "", passed
	}
	return "", fmt.Errorf("execve %s: %w, looked in PATH=%s", name, unix.ENOENT, path)
}

// executable says why a file cannot be executed. Launch has the program's ids, so the kernel's answer is the right one.
func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("execve %s: %w%s", path, err, deadLink(path))
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Errorf("execve %s: %w, it is a directory", path, unix.EACCES)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return fmt.Errorf("execve %s: %w, its mode is %04o and it belongs to %d:%d", path, err, st.Mode&0o7777, st.Uid, st.Gid)
	}
	return nil
}

// explain adds what execve(2) means by an error to a file that was there a moment ago.
func explain(program string, errno unix.Errno) error {
	why := ""
	switch errno {
	case unix.ENOENT:
		why = noInterpreter(program)
	case unix.ENOEXEC:
		why = ", it is neither a program for this machine nor a script that starts with #!"
	case unix.E2BIG:
		why = ", arguments and environment are too long for the stack limit"
	}
	return fmt.Errorf("execve %s: %w%s", program, errno, why)
}
