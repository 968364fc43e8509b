package real

import (
	"strings"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

func TestMain(m *testing.M) { hosttest.Main(m) }

// modules of CPython's own regression suite: processes, threads, files, signals, sockets, memory, time. Those that take
// longest come first: they mostly wait, and the others run beside them.
var modules = []string{
	"test_concurrent_futures", "test_multiprocessing_fork", "test_signal", "test_subprocess", "test_ssl", "test_io",
	"test_threading", "test_zipfile", "test_selectors", "test_tarfile", "test_poll", "test_queue", "test_pickle",
	"test_os", "test_posix", "test_thread", "test_file", "test_tempfile", "test_shutil", "test_pathlib", "test_glob",
	"test_hashlib", "test_json", "test_re", "test_time", "test_datetime", "test_zoneinfo", "test_mmap", "test_select",
	"test_fcntl", "test_pwd", "test_ctypes",
}

// notOurs are single tests that cannot pass with a read-only interpreter, each with its reason.
var notOurs = map[string]string{
	"test_unpickle_module_race": "removes byte code beside the installed library, and expects ENOENT there where a read-only file system answers EROFS",
}

// TestCPython runs CPython's regression tests of each module inside one jail a module.
func TestCPython(t *testing.T) {
	hosttest.File(t, "/usr/lib/python3.11/test/regrtest.py", "apt install libpython3.11-testsuite")
	a := harness.Start(t, harness.Options{})
	for _, m := range modules {
		t.Run(m, func(t *testing.T) {
			t.Parallel()
			args := []string{"/usr/bin/python3.11", "-m", "test", "-v", "--timeout", "540"}
			for name := range notOurs {
				args = append(args, "-i", name)
			}
			res := a.Run(api.JobRequest{
				Command: append(args, m),
				Limits: api.Limits{
					Wall: api.Duration(10 * time.Minute), CPU: api.Duration(5 * time.Minute), CPUs: 2, Pids: 512,
					Memory: api.Quantity(2 << 30), Output: api.Quantity(16 << 20), Shm: api.Quantity(256 << 20), Disk: api.Quantity(8 << 30), // large sparse files
				},
			})
			if res.Outcome != api.OutcomeOK {
				t.Errorf("%s: %s %v %s\n%s\n%s", m, res.Outcome, res.ExitCode, res.Detail, failures(res.Stdout), denials(res))
			}
		})
	}
}

// failures picks what a reader needs from a regression test's output.
func failures(out string) string {
	var b strings.Builder
	for _, block := range strings.Split(out, "======================================================================\n")[1:] {
		if len(block) > 1500 {
			block = block[:1500] + "…"
		}
		b.WriteString(block)
	}
	tail := out[max(0, len(out)-600):]
	return b.String() + "\n…" + tail
}

func denials(res *api.Result) string {
	var b strings.Builder
	for _, d := range res.Denials {
		b.WriteString(d.Rule + " " + d.What + " by " + d.Program + "\n")
	}
	return b.String()
}
