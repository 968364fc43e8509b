package hostile

import (
	"embed"
	"regexp"
	"strings"
	"testing"
)

// cases are the attacks that this package answers for, by the numbers that its programs and tests carry.
const cases = `A1 A2 A3 A6 A7 A8 A10 A11 A12 A13 A15 A16 A17 A18 A19 A21 A22 A24 A25
	B1 B2 B3 B4 B5 B6 B7 B8 B9 B15 B16 B17 B18
	C E1 E2 E3 E4 E5 E7 E8 E9 E10 E11 E15 E16 E17
	F1 F2 F6 F8 F10 F13 F14 F16`

//go:embed *_test.go
var sources embed.FS

// TestEveryCaseHasAProgram: each is a row of a chapter's table, or said in a test's comment to be what the test is about.
func TestEveryCaseHasAProgram(t *testing.T) {
	names, err := sources.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, name := range names {
		b, err := sources.ReadFile(name.Name())
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(b)
	}
	for _, id := range strings.Fields(cases) {
		said := regexp.MustCompile(`(?m)\bid: "` + id + `"|^// Test\w.*\b` + id + `\b`)
		if !said.MatchString(tests.String()) {
			t.Errorf("no program and no test is %s", id)
		}
	}
}
