package api

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"gopkg.in/yaml.v3"
)

// described are the Go types that the document has a schema of, by its name.
var described = map[string]any{
	"JobRequest": JobRequest{}, "File": File{}, "Limits": Limits{}, "Network": Network{}, "Policy": Policy{},
	"Job": Job{}, "JobList": List[Job]{}, "Result": Result{}, "Limit": Limit{}, "Output": Output{}, "Denial": Denial{},
	"Isolation": Isolation{}, "Effective": Effective{}, "Usage": Usage{}, "Flow": Flow{}, "Timings": Timings{}, "Event": Event{}, "StateEvent": StateEvent{},
	"ExitEvent": ExitEvent{}, "Signal": Signal{}, "StdinTaken": StdinTaken{}, "Problem": Problem{}, "Health": Health{},
	"JailHealth": JailHealth{}, "FilesystemHealth": FilesystemHealth{}, "Capacity": Capacity{}, "NodeProblem": NodeProblem{},
	"Node": Node{}, "JailMode": JailMode{}, "Layer": Layer{}, "Cgroup": Cgroup{}, "Base": Base{}, "Language": Language{},
	"NodeLimits": NodeLimits{}, "NodeNetwork": NodeNetwork{}, "NodeWorkspace": NodeWorkspace{}, "NodePolicy": NodePolicy{}, "Extra": Extra{},
	"RequestLimits": RequestLimits{},
}

// Schemas without a struct of their own, and exported structs that are no JSON object of the API.
var (
	plainSchemas = []string{"JobID", "Quantity", "Duration", "StringMap", "Encoding", "Stdin", "State", "Outcome"}
	noSchema     = []string{"List", "Stdin", "ClassInfo"}
)

// requests are the schemas of what a caller sends: nothing unknown is taken.
var requests = []string{"JobRequest", "File", "Limits", "Network", "Policy", "Signal"}

type object = map[string]any

func document(t *testing.T) object {
	t.Helper()
	data, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc object
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// at follows keys into nested objects.
func at(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(object)
		v = m[key]
	}
	return v
}

func TestOpenAPIHasEveryType(t *testing.T) {
	schemas := at(document(t), "components", "schemas").(object)
	for name := range schemas {
		if described[name] == nil && !slices.Contains(plainSchemas, name) {
			t.Errorf("schema %s belongs to no type", name)
		}
	}
	for name := range described {
		if schemas[name] == nil {
			t.Errorf("type %s has no schema", name)
		}
	}
	for _, name := range exportedStructs(t) {
		if described[name] == nil && !slices.Contains(noSchema, name) {
			t.Errorf("type %s is not described", name)
		}
	}
}

func exportedStructs(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, isStruct := spec.Type.(*ast.StructType); isStruct && spec.Name.IsExported() {
				names = append(names, spec.Name.Name)
			}
			return false
		})
	}
	return names
}

func TestOpenAPIFields(t *testing.T) {
	schemas := at(document(t), "components", "schemas").(object)
	for name, value := range described {
		schema, _ := schemas[name].(object)
		properties, _ := schema["properties"].(object)
		required := texts(schema["required"])
		fields := map[string]bool{}
		typ := reflect.TypeOf(value)
		for i := range typ.NumField() {
			field := typ.Field(i)
			key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			fields[key] = true
			property, ok := properties[key].(object)
			if !ok {
				t.Errorf("%s.%s is not in the schema", name, key)
				continue
			}
			optional := strings.Contains(options, "omitzero")
			if optional == slices.Contains(required, key) {
				t.Errorf("%s.%s: omitzero is %v, required is %v", name, key, optional, !optional)
			}
			if problem := mismatch(property, field.Type, optional); problem != "" {
				t.Errorf("%s.%s: %s", name, key, problem)
			}
		}
		for key := range properties {
			if !fields[key] {
				t.Errorf("schema %s has %s, which the type has not", name, key)
			}
		}
		if closed := schema["additionalProperties"] == false; closed != slices.Contains(requests, name) {
			t.Errorf("schema %s: additionalProperties false is %v", name, closed)
		}
	}
}

// mismatch says how a property's schema and a field's Go type differ, "" when they fit.
func mismatch(schema object, typ reflect.Type, optional bool) string {
	if typ.Kind() == reflect.Pointer {
		if !optional && !nullable(schema) {
			return "the pointer may be null, the schema may not"
		}
		return mismatch(withoutNull(schema), typ.Elem(), true)
	}
	if ref, ok := schema["$ref"].(string); ok {
		return refMismatch(ref[strings.LastIndex(ref, "/")+1:], typ)
	}
	want := kindOf(typ)
	if want == "" || schema["oneOf"] != nil {
		return "" // any JSON
	}
	if got := texts(schema["type"]); !slices.Contains(got, want) {
		return fmt.Sprintf("schema type %v, Go type %s", got, typ)
	}
	switch items, _ := schema["items"].(object); {
	case want == "array" && items == nil:
		return "an array without items"
	case want == "array":
		return mismatch(items, typ.Elem(), true)
	case typ.Kind() == reflect.Map:
		values, _ := schema["additionalProperties"].(object)
		return mismatch(values, typ.Elem(), true)
	}
	return ""
}

func refMismatch(name string, typ reflect.Type) string {
	if value := described[name]; value != nil {
		if reflect.TypeOf(value) != typ {
			return fmt.Sprintf("refers to %s, Go type %s", name, typ)
		}
		return ""
	}
	plain := map[string]reflect.Type{
		"Quantity": reflect.TypeFor[Quantity](), "Duration": reflect.TypeFor[Duration](), "Stdin": reflect.TypeFor[Stdin](),
		"State": reflect.TypeFor[State](), "Outcome": reflect.TypeFor[Outcome](), "StringMap": reflect.TypeFor[map[string]string](),
		"JobID": reflect.TypeFor[string](), "Encoding": reflect.TypeFor[string](),
	}
	if plain[name] != typ {
		return fmt.Sprintf("refers to %s, Go type %s", name, typ)
	}
	return ""
}

func kindOf(typ reflect.Type) string {
	switch typ {
	case reflect.TypeFor[time.Time]():
		return "string"
	case reflect.TypeFor[jsontext.Value]():
		return ""
	}
	switch typ.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return "unknown kind " + typ.Kind().String()
}

func nullable(schema object) bool {
	if slices.Contains(texts(schema["type"]), "null") {
		return true
	}
	choices, _ := schema["oneOf"].([]any)
	return slices.ContainsFunc(choices, func(c any) bool { return at(c, "type") == "null" })
}

// withoutNull is the one choice beside null.
func withoutNull(schema object) object {
	choices, _ := schema["oneOf"].([]any)
	for _, c := range choices {
		if at(c, "type") != "null" {
			return c.(object)
		}
	}
	return schema
}

func texts(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, item := range list {
		out = append(out, fmt.Sprint(item))
	}
	return out
}

func TestOpenAPIEnums(t *testing.T) {
	doc := document(t)
	classes := make([]string, 0, len(Classes()))
	for _, c := range Classes() {
		classes = append(classes, c.Class)
	}
	for _, tc := range []struct {
		path string
		want []string
	}{
		{"State.enum", []string{string(StateQueued), string(StateStarting), string(StateRunning), string(StateFinished)}},
		{"Outcome.enum", []string{string(OutcomeOK), string(OutcomeExit), string(OutcomeSignal), string(OutcomeWallLimit), string(OutcomeCPULimit), string(OutcomeMemoryLimit),
			string(OutcomeDiskLimit), string(OutcomePidsLimit), string(OutcomeOutputLimit), string(OutcomeDenied), string(OutcomeCancelled), string(OutcomeStartFailed), string(OutcomeAgentLost)}},
		{"Problem.properties.class.enum", classes},
		{"Health.properties.status.enum", []string{StatusOK, StatusDegraded, StatusDraining, StatusFailing}},
	} {
		got := texts(at(doc, append([]string{"components", "schemas"}, strings.Split(tc.path, ".")...)...))
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.path, got, tc.want)
		}
	}
}

// Every $ref leads somewhere, and every example decodes into its schema's type with no field left over.
func TestOpenAPIExamples(t *testing.T) {
	doc := document(t)
	decoded := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case object:
			if ref, ok := v["$ref"].(string); ok && resolve(doc, ref) == nil {
				t.Errorf("%s: %s leads nowhere", path, ref)
			}
			if examples, ok := v["examples"].(object); ok && v["schema"] != nil {
				for _, name := range slices.Sorted(maps.Keys(examples)) {
					decode(t, doc, path+" "+name, v["schema"], examples[name])
					decoded++
				}
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(path+"/"+key, v[key])
			}
		case []any:
			for i, item := range v {
				walk(fmt.Sprint(path, "/", i), item)
			}
		}
	}
	walk("", doc)
	if decoded < 8 {
		t.Errorf("%d examples were decoded", decoded)
	}
}

func resolve(doc object, ref string) any {
	return at(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}

func decode(t *testing.T, doc object, where string, schema, example any) {
	t.Helper()
	if ref, ok := at(example, "$ref").(string); ok {
		example = resolve(doc, ref)
	}
	ref, _ := at(schema, "$ref").(string)
	value := described[ref[strings.LastIndex(ref, "/")+1:]]
	if value == nil {
		t.Errorf("%s: an example of no type (%q)", where, ref)
		return
	}
	text, err := json.Marshal(at(example, "value"))
	if err != nil {
		t.Fatal(err)
	}
	target := reflect.New(reflect.TypeOf(value)).Interface()
	if err := json.Unmarshal(text, target, json.RejectUnknownMembers(true)); err != nil {
		t.Errorf("%s: %v", where, err)
	}
}
