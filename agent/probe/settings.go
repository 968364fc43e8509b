package probe

import (
	"os"
	"path/filepath"
	"strings"
)

// settings are what the kernel tells about itself below /proc and /sys: they explain a failure, and never stand for a try.
type settings struct{ root string }

// sysctl answers "" for a setting that this kernel does not have.
func (s settings) sysctl(key string) string {
	return s.read(sysctlFile(key))
}

// path is the file of a setting.
func (s settings) path(key string) string { return filepath.Join(s.root, sysctlFile(key)) }

func sysctlFile(key string) string { return "proc/sys/" + strings.ReplaceAll(key, ".", "/") }

// apparmor is the profile that confines this process, "" when none does.
func (s settings) apparmor() string {
	for _, file := range []string{"proc/self/attr/apparmor/current", "proc/self/attr/current"} {
		switch profile := strings.TrimRight(s.read(file), "\x00"); {
		case profile == "", profile == "unconfined":
		case strings.HasSuffix(profile, ")"): // "NAME (enforce)"; other security modules write no mode
			return profile
		}
	}
	return ""
}

// filtered says whether a seccomp filter from outside is in force for this process.
func (s settings) filtered() bool {
	for line := range strings.Lines(s.read("proc/self/status")) {
		if mode, found := strings.CutPrefix(line, "Seccomp:"); found {
			return strings.TrimSpace(mode) == "2"
		}
	}
	return false
}

// siblings says whether two threads may run on one core at once. Where the kernel does not tell, they may.
func (s settings) siblings() bool { return s.read("sys/devices/system/cpu/smt/active") != "0" }

func (s settings) read(name string) string {
	data, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// setting is one sysctl and the value that lets jails be made.
type setting struct{ key, want string }

// assignment is what an operator types after `sysctl -w`.
func (s setting) assignment() string { return s.key + "=" + s.want }

// outside names what confines this process, for a refusal that has no other reason left.
func (s settings) outside() string {
	var names []string
	if s.filtered() {
		names = append(names, "a seccomp filter (in Kubernetes securityContext.seccompProfile)")
	}
	if profile := s.apparmor(); profile != "" {
		names = append(names, "the AppArmor profile "+profile+" (in Kubernetes securityContext.appArmorProfile)")
	}
	return strings.Join(names, " and ")
}
