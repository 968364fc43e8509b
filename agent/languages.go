package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/probe"
)

// language is how code of one language is run. The code becomes the file tolbooth-main with the extension, in the
// job's working directory, so that it finds its neighbours (imports, includes) as if it had been put there; the name is
// reserved, so it never takes the place of a file of the workspace, and it is removed again before outputs are
// collected and the workspace is flushed.
type language struct {
	name      string
	program   string // as package probe calls what runs it
	extension string
	command   []string // "{}" is the file, "{program}" the name of what was found
	env       map[string]string
}

const codeName = "tolbooth-main"

// compiled runs a compiler and then what it made. The arguments are: compiler, file.
const compiled = `"$1" -O1 -o /tmp/` + codeName + ` "$2" -lm && exec /tmp/` + codeName

func languageTable() []language {
	return []language{
		{name: "python", program: "python", extension: ".py", command: []string{"python3", "{}"}},
		{name: "javascript", program: "javascript", extension: ".js", command: []string{"node", "{}"}},
		{name: "typescript", program: "javascript", extension: ".ts", command: []string{"node", "--experimental-strip-types", "{}"}},
		{name: "bash", program: "bash", extension: ".sh", command: []string{"bash", "{}"}},
		{name: "c", program: "c", extension: ".c", command: []string{"sh", "-c", compiled, "sh", "{program}", "{}"}},
		{name: "c++", program: "c++", extension: ".cc", command: []string{"sh", "-c", compiled, "sh", "{program}", "{}"}},
		{name: "go", program: "go", extension: ".go", command: []string{"go", "run", "{}"}, env: map[string]string{
			// Caches are kept out of the workspace; nothing is fetched behind the job's back.
			"GOCACHE": "/tmp/go-build", "GOPATH": "/tmp/go", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false",
		}},
		{name: "perl", program: "perl", extension: ".pl", command: []string{"perl", "{}"}},
		{name: "ruby", program: "ruby", extension: ".rb", command: []string{"ruby", "{}"}},
	}
}

// languages is what this node runs.
type languages map[string]found

type found struct {
	language
	why string // it cannot be run; empty: it can
}

// findLanguages matches the table with what the probe found on this node.
func findLanguages(programs []probe.Language) languages {
	have := map[string]probe.Language{}
	for _, p := range programs {
		have[p.Name] = p
	}
	list := languages{}
	for _, l := range languageTable() {
		f := found{language: l}
		p := have[l.program]
		if p.Program == "" {
			f.why = "nothing that runs " + l.name + " is installed on this node"
		} else if l.name == "typescript" && !stripsTypes(p.Version) {
			f.why = fmt.Sprintf("node %s cannot run TypeScript; 22.6 or later can", p.Version)
		}
		f.command = slices.Clone(l.command)
		for i, arg := range f.command {
			if arg == "{program}" {
				f.command[i] = p.Program[strings.LastIndexByte(p.Program, '/')+1:]
			}
		}
		list[l.name] = f
	}
	return list
}

// stripsTypes tells whether a node of this version ("v22.6.0") has --experimental-strip-types.
func stripsTypes(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 22 || major == 22 && minor >= 6
}

// names lists the languages that can be run.
func (ls languages) names() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(ls)) {
		if ls[name].why == "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// wire is what GET /v1/node says.
func (ls languages) wire() map[string]api.Language {
	out := map[string]api.Language{}
	for name, f := range ls {
		l := api.Language{Available: f.why == "", Why: f.why}
		if l.Available {
			l.Command = f.command
		}
		out[name] = l
	}
	return out
}

// code turns a language and its code into a command and the file that it runs.
func (ls languages) code(name, code, cwd string) (command []string, file inputFile, env map[string]string, err error) {
	f, known := ls[name]
	if !known {
		return nil, inputFile{}, nil, refuse(api.ClassUnsupported, "language", "there is no language %s on this node", quoted(name)).
			hint("languages here: %s; or use \"command\"", ls.names())
	}
	if f.why != "" {
		return nil, inputFile{}, nil, refuse(api.ClassUnsupported, "language", "%s", f.why).
			hint("languages here: %s", ls.names())
	}
	path, err := filePath("cwd", strings.TrimSuffix(cwd, "/")+"/"+codeName+f.extension)
	if err != nil {
		return nil, inputFile{}, nil, err
	}
	for _, arg := range f.command {
		if arg == "{}" {
			arg = path
		}
		command = append(command, arg)
	}
	return command, inputFile{Path: path, Data: []byte(code), Mode: 0o644, Scratch: true}, f.env, nil
}
