package wire

import (
	"fmt"
	"strings"
)

// MaxArguments is how many bytes a command's arguments and environment may have together, each with its closing NUL. The
// kernel's own limit is a quarter of the stack limit, and 128 KiB for one string.
const MaxArguments = 256 << 10

const maxString = 128 << 10 // MAX_ARG_STRLEN, execve(2)

// CheckCommand refuses a command that execve or a message cannot carry.
func CheckCommand(command, env []string) error {
	if len(command) == 0 || command[0] == "" {
		return fmt.Errorf("command is empty")
	}
	total := 0
	for _, list := range []struct {
		what  string
		items []string
	}{{"argument", command}, {"environment variable", env}} {
		for i, s := range list.items {
			if strings.IndexByte(s, 0) >= 0 {
				return fmt.Errorf("%s %d contains a NUL byte", list.what, i)
			}
			if len(s) >= maxString {
				return fmt.Errorf("%s %d has %d bytes, the kernel's limit is %d", list.what, i, len(s), maxString-1)
			}
			total += len(s) + 1
		}
	}
	if total > MaxArguments {
		return fmt.Errorf("arguments and environment have %d bytes together, the limit is %d", total, MaxArguments)
	}
	return nil
}
