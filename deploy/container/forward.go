package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// forwarding are the switches that let a jail's packets pass from its veth to the container's own interface.
var forwarding = []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"}

// forward turns forwarding on in the container's network namespace, and returns which switches it changed. A kernel
// without IPv6 lacks the second one.
func forward() ([]string, error) {
	var changed []string
	for _, path := range forwarding {
		old, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return changed, fmt.Errorf("read %s: %w", path, err)
		}
		if strings.TrimSpace(string(old)) == "1" {
			continue
		}
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			return changed, fmt.Errorf("turn on %s: %w", path, err)
		}
		changed = append(changed, path)
	}
	return changed, nil
}
