package hosttest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func TestRecordAppendsOneLinePerSkip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skips")
	if err := record(path, "kernel", "a\nb\tc", "TestX"); err != nil {
		t.Fatal(err)
	}
	if err := record(path, "root", "needs uid 0", "TestY/z"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const pkg = "github.com/tolbooth-dev/tolbooth/internal/hosttest"
	want := "kernel\ta b c\t" + pkg + "\tTestX\nroot\tneeds uid 0\t" + pkg + "\tTestY/z\n"
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNeedRecordsAndSkips(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skips")
	t.Setenv("TOLBOOTH_SKIPS", path)
	t.Run("met", func(t *testing.T) { Need(t, "x", true, "never seen") })
	reached := false
	// A test double: this skip is no claim about the machine.
	double := &skipper{TB: t}
	func() {
		defer func() { recover() }()
		Need(double, "x", false, "because")
		reached = true
	}()
	if reached || !double.skipped {
		t.Error("Need let an unmet test go on")
	}
	if got, _ := os.ReadFile(path); strings.Count(string(got), "\n") != 1 || !strings.HasPrefix(string(got), "x\tbecause\t") {
		t.Errorf("recorded %q", got)
	}
}

type skipper struct {
	testing.TB
	skipped bool
}

func (s *skipper) Skipf(string, ...any) { s.skipped = true; panic("skip") }

func TestNetnsIsFreshWithLoopbackUp(t *testing.T) {
	home, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	Netns(t, func() {
		if inside, _ := os.Readlink("/proc/thread-self/ns/net"); inside == home {
			t.Error("still in the host's namespace")
		}
		interfaces, err := net.Interfaces()
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range interfaces {
			if i.Name == "lo" && i.Flags&net.FlagUp != 0 {
				return
			}
		}
		t.Errorf("no lo that is up among %v", interfaces)
	})
	if after, _ := os.Readlink("/proc/thread-self/ns/net"); after != home {
		t.Error("the test's own thread was moved")
	}
}

func TestLeaksAreSeen(t *testing.T) {
	before := look()
	f, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	go func() { <-stop }()
	own, _ := before.leaks()
	text := strings.Join(own, "\n")
	if !strings.Contains(text, "descriptor /dev/zero") || !strings.Contains(text, "TestLeaksAreSeen") {
		t.Errorf("open file and goroutine not reported: %q", text)
	}
	close(stop)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if own, _ := before.leaks(); len(own) > 0 {
		t.Errorf("reported though all is closed: %v", own)
	}
}
