package agent

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// Every route that the server has is described, and every one that is described exists. What the schemas say is held to
// the Go types in package api.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	var doc struct {
		OpenAPI string                    `yaml:"openapi"`
		Paths   map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("OpenAPI version %q", doc.OpenAPI)
	}
	routes := (&Server{}).routes()
	for path, methods := range routes {
		for method := range methods {
			if doc.Paths[path][strings.ToLower(method)] == nil {
				t.Errorf("%s %s is not described", method, path)
			}
		}
	}
	for path, item := range doc.Paths {
		for method := range item {
			if method != "parameters" && routes[path][strings.ToUpper(method)] == nil {
				t.Errorf("%s %s is described, but does not exist", strings.ToUpper(method), path)
			}
		}
	}
}

// TestOpenAPIExamplesAreTrue: the finished job, and the one of docs/kubernetes.md, list the layers that a job has where the kernel has
// all but a quota, and the refused call is worded as one is.
func TestOpenAPIExamplesAreTrue(t *testing.T) {
	var doc struct {
		Components struct {
			Examples struct {
				FinishedJob struct {
					Value struct {
						Result struct{ Isolation api.Isolation }
					}
				} `yaml:"FinishedJob"`
				DenialEvent struct {
					Value struct {
						Data struct {
							Layer, What, Rule, Errno, Program, Fix, Why, Evidence string
							Count                                                 int64
							PID                                                   int
							AtMS                                                  int64 `yaml:"at_ms"`
						}
					}
				} `yaml:"DenialEvent"`
			}
		}
	}
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	s := &spine{engine: jail.Notify, egress: "clsact"}
	s.files.OwnBase = true
	w := &work{Mode: jail.Syd, Policy: mustPolicy(t, policy.Change{})}
	want := s.isolation(w, jail.Exit{ExitKill: true, Landlock: 7})
	kubernetes, err := os.ReadFile("../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	if line := mustEncode(want); !strings.Contains(string(kubernetes), "\n    "+string(line)+"\n") {
		t.Errorf("docs/kubernetes.md does not say %s", line)
	}
	if diff := cmp.Diff(want, doc.Components.Examples.FinishedJob.Value.Result.Isolation); diff != "" {
		t.Errorf("isolation of FinishedJob:\n%s", diff)
	}

	call, _ := w.Policy.Lookup("ptrace")
	record := mustEncode(jail.Denial{Arch: w.Policy.AuditArch(), NR: int(call.NR), Errno: 1, PID: 7, Program: "gdb", AtUS: 41_000, Count: 1})
	d, err := wordCall(w.Policy, nil, record)
	if err != nil {
		t.Fatal(err)
	}
	e := doc.Components.Examples.DenialEvent.Value.Data
	got := api.Denial{
		Layer: e.Layer, What: e.What, Rule: e.Rule, Errno: e.Errno, Count: e.Count, PID: e.PID, Program: e.Program,
		Fix: noFix, Why: e.Why, Evidence: e.Evidence, AtMS: e.AtMS,
	}
	if diff := cmp.Diff(d, got); diff != "" || e.Fix != "" {
		t.Errorf("%s, DenialEvent, fix %q:\n%s", runtime.GOARCH, e.Fix, diff)
	}
}
