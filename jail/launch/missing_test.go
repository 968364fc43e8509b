package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMissingIsNamed is P13: a virtual environment whose base interpreter is not in the jail fails with the name of what is
// missing, whether the link is executed, found in PATH, or named by a script's first line.
func TestMissingIsNamed(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, target := range map[string]string{
		"python": "/opt/none/python3", "python3": "python", "up": "../none/python", "loop": "loop", "sh": "/bin/sh",
	} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"tool": "#!/opt/none/python3\nprint(1)\n", "pip": "#! " + at("python3") + " -I\nprint(1)\n", "windows": "#!/bin/sh\r\n",
		"nested": "#!" + at("tool") + "\n", "foreign": "\x7fELF", "empty": "", "long": "#!/" + strings.Repeat("x", 300),
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inPath := func(name string) error {
		_, err := lookUp(filepath.Base(name), []string{"PATH=" + dir})
		return err
	}
	for _, c := range []struct {
		name  string
		found func(string) error
		words string
	}{
		{"python", executable, `leads to "/opt/none/python3", which is not in the jail`},
		{"python3", executable, `leads to "/opt/none/python3", which is not in the jail`},
		{"up", executable, `/../none/python", which is not in the jail`},
		{"python", inPath, `leads to "/opt/none/python3"`},
		{"loop", executable, "too many levels"},
		{"nothing", executable, "no such file or directory"},
		{"tool", asProgram, `the interpreter "/opt/none/python3", which is not in the jail`},
		{"pip", asProgram, `the interpreter "` + at("python3") + `", it is a link that leads to "/opt/none/python3"`},
		{"windows", asProgram, `the interpreter "/bin/sh\r"`},
		{"nested", asProgram, "which is there, but not what that needs to run"},
		{"foreign", asProgram, "the loader that it names"},
		{"empty", asProgram, "the loader that it names"},
		{"long", asProgram, `/xxx`},
	} {
		err := c.found(at(c.name))
		if err == nil || !strings.Contains(err.Error(), c.words) || len(err.Error()) > 800 {
			t.Errorf("%s: %v, want %s", c.name, err, c.words)
		}
	}
	if err := executable(at("sh")); err != nil {
		t.Error(err)
	}
}

func asProgram(name string) error { return explain(name, unix.ENOENT) }
