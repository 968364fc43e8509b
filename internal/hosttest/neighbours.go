package hosttest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// neighbour is a tolbooth of someone else who works on this machine: an agent, or a test binary.
type neighbour struct {
	instance string // what the names of an agent's kernel objects carry; empty: not known
}

// neighbours lists them. Whoever belongs to this process's session was started by the same make: an agent that a test
// forgot is no neighbour but a leak.
func neighbours() []neighbour {
	own, err := unix.Getsid(0)
	if err != nil {
		return nil
	}
	var list []neighbour
	for _, entry := range readDir("/proc") {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", entry.Name(), "exe"))
		if err != nil {
			continue
		}
		program := strings.TrimSuffix(filepath.Base(exe), " (deleted)")
		if program != "tolbooth" && !strings.HasSuffix(program, ".test") {
			continue
		}
		if session, err := unix.Getsid(pid); err != nil || session == own {
			continue
		}
		list = append(list, neighbour{instance(filepath.Join("/proc", entry.Name()))})
	}
	return list
}

// instance is that of the agent whose directory in /proc is given: a file in its state directory, which a flag names.
func instance(proc string) string {
	cmdline, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return ""
	}
	args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	state := ""
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--state="); ok {
			state = value
		}
		if arg == "--state" && i+1 < len(args) {
			state = args[i+1]
		}
	}
	if state == "" {
		return ""
	}
	if !filepath.IsAbs(state) {
		state = filepath.Join(proc, "cwd", state)
	}
	text, err := os.ReadFile(filepath.Join(state, "instance"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// withoutTheirs leaves out the objects that may be a neighbour's: those that carry its instance, and all of them while
// there is a neighbour without a known one.
func withoutTheirs(objects []string, list []neighbour) []string {
	return slices.DeleteFunc(slices.Clone(objects), func(object string) bool {
		return slices.ContainsFunc(list, func(n neighbour) bool {
			return n.instance == "" || strings.Contains(object, "tb-"+n.instance) || strings.Contains(object, " tb"+n.instance)
		})
	})
}
