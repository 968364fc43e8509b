package real

import (
	_ "embed"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

//go:embed regrtest.py
var regrtest string

const (
	readOnly = `Read-only file system: '/usr/lib/python3\.11/`
	byteCode = "writes or removes files beside the installed library: where uid 1000 is told ENOENT or EACCES outside, a read-only file system answers EROFS to every attempt"
	onlyTCP  = "UDP-Lite is refused like every protocol but TCP and UDP: seldom used, and code of the kernel that a job need not reach"
)

// ofCPython are the tests that pass outside and not inside, on purpose.
var ofCPython = []difference{
	{"test.test_bdb.*.*", readOnly, byteCode},
	{"test.test_doctest.TestDocTestFinder.test_empty_namespace_package", readOnly, byteCode},
	{"test.test_import.*.*", readOnly, byteCode},
	{"test.test_importlib.test_threaded_import.*.*", readOnly, byteCode},
	{"test.test_pickle.*.test_unpickle_module_race", readOnly, byteCode},
	{"test.test_runpy.RunModuleTestCase.*", readOnly, byteCode},
	{"test.test_support.TestSupport.test_forget", readOnly, byteCode},
	{"test.test_trace.TestCoverageCommandLineOutput.*", readOnly, byteCode},
	{"test.test_socket.*UDPLITE*.*", `Operation not permitted|no attribute 'cli'`, onlyTCP},
	{"test.test_spwd.TestSpwdNonRoot.test_getspnam_exception", `No such file or directory`, "expects an /etc/shadow that may not be read; a jail has none"},
	{"test.test_resource.ResourceTest.test_fsize_ismax", `-1 != \d+`, "expects no limit of a file's size; a jail sets the disk limit, so that one call cannot reserve more"},
}

// core are the modules that lean most on what a jail changes: processes, threads, signals, files, memory.
const core = "test_concurrent_futures test_multiprocessing_fork test_signal test_subprocess test_ssl test_io test_threading " +
	"test_zipfile test_selectors test_tarfile test_poll test_queue test_pickle test_os test_posix test_thread test_file test_tempfile " +
	"test_shutil test_pathlib test_glob test_hashlib test_json test_re test_time test_datetime test_zoneinfo test_mmap test_select " +
	"test_fcntl test_pwd test_ctypes"

// TestCPython runs CPython's regression suite in one jail: the modules of core, with TOLBOOTH_LONG=1 all of them, which takes a
// quarter of an hour. Failed tests and skipped modules are compared with a run outside, in a long run every skipped test too.
func TestCPython(t *testing.T) {
	hosttest.NotSlow(t, "the suite takes hours under emulation")
	hosttest.File(t, "/usr/lib/python3.11/test/regrtest.py", "apt install libpython3.11-testsuite")
	a := harness.Start(t, harness.Options{})
	long := os.Getenv("TOLBOOTH_LONG") != ""
	atLeast := 2500
	if long {
		atLeast = 30_000
	}
	s := suite{
		files: []api.File{{Path: "regrtest.py", Content: regrtest}},
		command: func(tests []string) []string {
			modules := modulesOf(tests)
			if len(modules) == 0 && !long {
				modules = strings.Fields(core)
			}
			return append([]string{"/usr/bin/python3.11", "regrtest.py"}, modules...)
		},
		parse:     tabbed,
		atLeast:   atLeast,
		explained: ofCPython,
	}
	s.compare(t, a, func(name string, o outcome) bool { return long || o.status == "failed" || !strings.Contains(name, ".") })
}

// packages are the suites that lie beside the modules of the package test which run them.
var packages = map[string]string{
	"ctypes.test": "test_ctypes", "distutils.tests": "test_distutils", "lib2to3.tests": "test_lib2to3", "unittest.test": "test_unittest",
	"test.datetimetester": "test_datetime", "idlelib.idle_test": "test_idle",
}

// moduleOf is the module that runs a test: of "test.test_os.FileTests.test_read" test_os. A module that could not be loaded
// stands behind the name of its stand-in.
func moduleOf(name string) string {
	name = strings.TrimPrefix(name, "unittest.loader.ModuleSkipped.")
	for prefix, module := range packages {
		if strings.HasPrefix(name, prefix+".") {
			return module
		}
	}
	module, _, _ := strings.Cut(strings.TrimPrefix(name, "test."), ".")
	return module
}

// modulesOf names the modules of tests, each once.
func modulesOf(tests []string) []string {
	var modules []string
	for _, name := range tests {
		if module := moduleOf(name); !slices.Contains(modules, module) {
			modules = append(modules, module)
		}
	}
	return modules
}
