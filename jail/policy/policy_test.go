package policy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/profiles/seccomp"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestTable compares the whole table with a reviewed copy. A new version of the container engines' list or of x/sys shows
// here before it changes what a jail may do: read the difference, then run with -update.
func TestTable(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p := mustDefault(t, arch)
		var b bytes.Buffer
		for c := range p.Calls() {
			for _, k := range c.Cases {
				fmt.Fprintf(&b, "%d %s: ", c.NR, c.Name)
				if len(k.When) > 0 {
					fmt.Fprintf(&b, "when %s: ", words(k.When))
				}
				if k.Action == Allow {
					fmt.Fprintln(&b, "allow")
				} else {
					fmt.Fprintf(&b, "%v %s %s\n", k.Action, errnoName(k.Errno), k.Rule)
				}
			}
		}
		file := filepath.Join("testdata", arch+".txt")
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			got, old := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
			for _, line := range got {
				if !slices.Contains(old, line) {
					t.Errorf("%s has a new line: %s", file, line)
				}
			}
			for _, line := range old {
				if !slices.Contains(got, line) {
					t.Errorf("%s lost a line: %s", file, line)
				}
			}
		}
	}
}

// TestEveryRefusalIsDeliberate: no call is refused only because nobody thought of it.
func TestEveryRefusalIsDeliberate(t *testing.T) {
	decided := decisions()
	for _, arch := range []string{"amd64", "arm64"} {
		allowed := base(arch)
		for c := range mustDefault(t, arch).Calls() {
			if _, ok := decided[c.Name]; !ok && !allowed[c.Name] {
				t.Errorf("%s: %s is neither in the container engines' list nor in the table", arch, c.Name)
			}
		}
	}
}

// TestTableNamesExist: a misspelt name would leave the real call to the container engines' list.
func TestTableNamesExist(t *testing.T) {
	policies := both(t)
	for name := range decisions() {
		_, amd64 := policies["amd64"].Lookup(name)
		_, arm64 := policies["arm64"].Lookup(name)
		if !amd64 && !arm64 {
			t.Errorf("no architecture has a call %q", name)
		}
	}
}

// TestBaseConditionsAreDecided: a call that container engines allow with some arguments only is decided here, not
// dropped without notice.
func TestBaseConditionsAreDecided(t *testing.T) {
	decided := decisions()
	for _, s := range seccomp.DefaultProfile().Syscalls {
		if len(s.Args) == 0 {
			continue
		}
		for _, name := range s.Names {
			if _, ok := decided[name]; !ok {
				t.Errorf("%s has argument rules in the base and none here", name)
			}
		}
	}
}

func TestCasesAreWellFormed(t *testing.T) {
	rule := regexp.MustCompile(`^(syscall|policy)\.[a-z0-9_]+(\.[a-z0-9_]+)?$`)
	for arch, p := range variants(t) {
		for c := range p.Calls() {
			for i, k := range c.Cases {
				if last := i == len(c.Cases)-1; last != (len(k.When) == 0) {
					t.Errorf("%s: %s: case %d of %d has conditions %v", arch, c.Name, i, len(c.Cases), k.When)
				}
				if len(k.When) > 0 && k.Use == "" {
					t.Errorf("%s: %s: nobody can read aloud when %s", arch, c.Name, words(k.When))
				}
				for _, m := range k.When {
					for _, v := range m.In {
						if v&^m.Mask != 0 || m.Arg < 0 || m.Arg > 5 {
							t.Errorf("%s: %s: condition %v can never hold", arch, c.Name, m)
						}
					}
				}
				switch {
				case k.Action == Allow && k.Rule == "" && k.Errno == 0:
				case (k.Action == Broker || k.Action == Skip) && rule.MatchString(k.Rule) && k.Errno == 0:
				case (k.Action == Trace || k.Action == Quiet) && rule.MatchString(k.Rule) && k.Errno > 0 && k.Errno < 4096:
				default:
					t.Errorf("%s: %s: case %+v", arch, c.Name, k)
				}
			}
		}
	}
}

// TestReasons: each is one sentence without an end mark, so that it can stand after "refused:" and in a list.
func TestReasons(t *testing.T) {
	for _, p := range variants(t) {
		for _, r := range p.Rules() {
			if len(r.Why) < 20 || len(r.Why) > 240 || strings.ContainsAny(r.Why, "\n\t") || strings.HasSuffix(r.Why, ".") {
				t.Errorf("%s: reason %q", r.ID, r.Why)
			}
			if r.Errno == "" || r.Action == Allow || r.Action == Broker {
				t.Errorf("%s: %+v", r.ID, r)
			}
		}
	}
}

func TestHash(t *testing.T) {
	amd64, again, arm64 := mustDefault(t, "amd64"), mustDefault(t, "amd64"), mustDefault(t, "arm64")
	if amd64.Hash() != again.Hash() || len(amd64.Hash()) != 64 {
		t.Errorf("hash %q, then %q", amd64.Hash(), again.Hash())
	}
	if amd64.Hash() == arm64.Hash() {
		t.Error("two architectures share a hash")
	}
	changed := mustDefault(t, "amd64")
	changed.calls[0].Cases = []Case{{Action: Trace, Errno: 1, Rule: "syscall.read"}}
	if changed.fingerprint() == amd64.Hash() {
		t.Error("a refused read leaves the hash as it was")
	}
}

func TestDefaultRefusesOtherArchitectures(t *testing.T) {
	for _, arch := range []string{"", "386", "arm", "riscv64", "x86_64"} {
		if _, err := Default(arch); err == nil {
			t.Errorf("%q has a policy", arch)
		}
	}
}

// TestReserving: where the file system counts what is reserved, fallocate is allowed and nothing else changes; a run that denied itself
// the call does not get it back.
func TestReserving(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		usual, err := Default(arch)
		if err != nil {
			t.Fatal(err)
		}
		held := usual.Reserving()
		if held.Hash() == usual.Hash() {
			t.Error("two policies have one hash")
		}
		for c := range usual.Calls() {
			same, _ := held.Lookup(c.Name)
			if c.Name == "fallocate" {
				if v := same.decide([6]uint64{3, 0, 0, 1 << 40}); v.Action != Allow {
					t.Errorf("%s: fallocate: %+v", arch, v)
				}
				continue
			}
			if !reflect.DeepEqual(c, same) {
				t.Errorf("%s: %s changed", arch, c.Name)
			}
		}
		if v := usual.Evaluate(usual.AuditArch(), of(t, usual, "fallocate"), [6]uint64{3, 0, 0, 1 << 40}); v.Action == Allow {
			t.Errorf("%s: the usual policy was changed with it", arch)
		}
		denied, err := For(arch, Change{Deny: []string{denyCall + "fallocate"}})
		if err != nil {
			t.Fatal(err)
		}
		if denied.Reserving().Hash() != denied.Hash() {
			t.Errorf("%s: a denied call came back", arch)
		}
	}
}

func of(t *testing.T, p Policy, name string) uint32 {
	t.Helper()
	c, ok := p.Lookup(name)
	if !ok {
		t.Fatalf("no call %s", name)
	}
	return c.NR
}
