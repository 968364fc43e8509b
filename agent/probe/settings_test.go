package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeHost is a machine whose kernel shows these files.
func fakeHost(t *testing.T, files map[string]string) settings {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return settings{root: root}
}

const yamaFile = "proc/sys/kernel/yama/ptrace_scope"

// TestYamaForbidsPtrace is P09: a node with kernel.yama.ptrace_scope=3 says so by name, and what is used instead.
func TestYamaForbidsPtrace(t *testing.T) {
	blocked := ptraceLayer(fakeHost(t, map[string]string{yamaFile: "3\n"}))
	l := Explainers{notify: ok("unotify", ""), ptrace: blocked}.layers()[1]
	if l.OK || l.Why != "ptrace blocked by yama=3; using unotify" || !strings.Contains(l.Fix, "kernel.yama.ptrace_scope") || len(l.Needed) != 0 {
		t.Errorf("with user notification: %+v", l)
	}
	l = Explainers{notify: missing("unotify", "no listener", "a newer kernel"), ptrace: blocked}.layers()[1]
	if l.OK || l.Why != "ptrace blocked by yama=3" || len(l.Needed) != 1 {
		t.Errorf("without: %+v", l)
	}
}

// TestSettingsAreNamed: each refusal names what stands in its way, as far as /proc tells.
func TestSettingsAreNamed(t *testing.T) {
	const (
		limit    = "proc/sys/user/max_user_namespaces"
		debian   = "proc/sys/kernel/unprivileged_userns_clone"
		ubuntu   = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
		actions  = "proc/sys/kernel/seccomp/actions_avail"
		profile  = "proc/self/attr/apparmor/current"
		attr     = "proc/self/attr/current"
		status   = "proc/self/status"
		filtered = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"
	)
	namespace := func(err error, name string) func(settings) string {
		return func(host settings) string {
			why, fix := namespaceFailure(err, name, "user.max_user_namespaces", host)
			return why + " | " + fix
		}
	}
	ptrace := func(host settings) string { return ptraceFix(unix.EPERM, host.sysctl(yamaScope), host) }
	seccomp := func(err error) func(settings) string {
		return func(host settings) string { return seccompFix(err, host) }
	}
	for _, tc := range []struct {
		name  string
		files map[string]string
		words func(settings) string
		want  []string
		never string
	}{
		{"limit reached", map[string]string{limit: "7\n"}, namespace(unix.ENOSPC, "userns"), []string{"raise sysctl user.max_user_namespaces", "allows, 7"}, ""},
		{"limit zero", map[string]string{limit: "0\n"}, namespace(unix.EPERM, "userns"), []string{"user.max_user_namespaces", "allows, 0"}, ""},
		{"ubuntu", map[string]string{limit: "9", ubuntu: "1\n"}, namespace(unix.EACCES, "userns"), []string{"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0", "CAP_SYS_ADMIN", "permission denied"}, ""},
		{"debian", map[string]string{limit: "9", debian: "0\n"}, namespace(unix.EPERM, "userns"), []string{"sysctl -w kernel.unprivileged_userns_clone=1"}, ""},
		{"not in the way", map[string]string{limit: "9", debian: "1\n", ubuntu: "0\n"}, namespace(unix.EPERM, "userns"), []string{"CAP_SYS_ADMIN"}, "sysctl"},
		{"other namespace", map[string]string{limit: "9", ubuntu: "1"}, namespace(unix.EPERM, "pidns"), []string{"CAP_SYS_ADMIN"}, "apparmor"},
		{"container", map[string]string{limit: "9", profile: "docker-default (enforce)\n", status: filtered}, namespace(unix.EPERM, "pidns"), []string{"seccomp filter", "docker-default (enforce)"}, ""},
		{"old kernel", nil, namespace(unix.EINVAL, "cgroupns"), []string{"use a kernel"}, ""},
		{"yama 2", map[string]string{yamaFile: "2"}, ptrace, []string{"CAP_SYS_PTRACE", "kernel.yama.ptrace_scope=2"}, ""},
		{"yama 1", map[string]string{yamaFile: "1"}, ptrace, []string{"CAP_SYS_PTRACE"}, "yama"},
		{"ptrace filtered", map[string]string{status: filtered}, ptrace, []string{"CAP_SYS_PTRACE", "seccomp filter"}, ""},
		{"no seccomp", nil, seccomp(unix.ENOSYS), []string{"CONFIG_SECCOMP_FILTER"}, ""},
		{"seccomp without trace", map[string]string{actions: "kill errno allow\n"}, seccomp(unix.EOPNOTSUPP), []string{"4.14", "kill errno allow"}, ""},
		{"seccomp refused", map[string]string{actions: "kill errno allow\n", profile: "p (enforce)", status: filtered}, seccomp(unix.EPERM), []string{"the kernel has seccomp", "AppArmor profile p (enforce)"}, "CONFIG"},
		{"selinux is no profile", map[string]string{attr: "system_u:system_r:container_t:s0\x00", status: "Seccomp:\t0\n"}, settings.outside, []string{""}, "container_t"},
		{"apparmor of old", map[string]string{attr: "cri-containerd.apparmor.d (enforce)\n"}, settings.outside, []string{"cri-containerd.apparmor.d"}, ""},
		{"told of a restriction that root does not meet", map[string]string{ubuntu: "1"}, userNamespaceFound, []string{"kernel.apparmor_restrict_unprivileged_userns is 1"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.words(fakeHost(t, tc.files))
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not name %q", got, want)
				}
			}
			if tc.never != "" && strings.Contains(got, tc.never) {
				t.Errorf("%q names %q, which is not in the way", got, tc.never)
			}
		})
	}
}

func TestCoresAreNotSharedWhereNoneHasSiblings(t *testing.T) {
	const active = "sys/devices/system/cpu/smt/active"
	if l := coreSchedulingLayer(fakeHost(t, map[string]string{active: "0\n"})); !l.OK || !strings.Contains(l.Found, "not needed") {
		t.Errorf("one thread a core: %+v", l)
	}
	for _, host := range []settings{fakeHost(t, map[string]string{active: "1\n"}), fakeHost(t, nil)} {
		if l := coreSchedulingLayer(host); strings.Contains(l.Found, "not needed") || !l.OK && !strings.Contains(l.Fix, "CONFIG_SCHED_CORE") {
			t.Errorf("with siblings: %+v", l)
		}
	}
}

func TestCapabilitiesAndProgramsAreNamed(t *testing.T) {
	l := capabilityLayer([]Capability{{Name: "SYS_PTRACE", Why: "w"}, {Name: "KILL", Why: "k", Held: true}, {Name: "SETFCAP", Optional: true}})
	if l.OK || !strings.Contains(l.Why, "SYS_PTRACE (w)") || !strings.Contains(l.Fix, "SYS_PTRACE") || strings.Contains(l.Why+l.Fix, "KILL") || strings.Contains(l.Why, "SETFCAP") {
		t.Errorf("capabilities: %+v", l)
	}
	if fix := bpfFix(errors.Join(unix.EPERM)); !strings.Contains(fix, "CAP_SYS_ADMIN") {
		t.Errorf("bpf: %q", fix)
	}
}
