package agent

import (
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
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
