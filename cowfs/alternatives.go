package cowfs

import (
	"fmt"
	"strings"
)

// maxAlternatives bounds what the braces of one pattern stand for.
const maxAlternatives = 64

// alternatives writes the braces of a valid pattern out: "a.{b,c}" is "a.b" and "a.c". The matcher tries every combination
// of them at every place where a * may end, which a request can make take years; without braces it takes one try.
func alternatives(pattern string) ([]string, error) {
	out := []string{""}
	for i := 0; i < len(pattern); {
		size := unitLen(pattern[i:])
		unit := []string{pattern[i : i+size]}
		if pattern[i] == '{' {
			unit = nil
			for _, choice := range choices(pattern[i+1 : i+size-1]) {
				inner, err := alternatives(choice)
				if err != nil {
					return nil, err
				}
				unit = append(unit, inner...)
			}
		}
		if i += size; len(out)*len(unit) > maxAlternatives {
			return nil, fmt.Errorf("%w: the braces of pattern %s stand for more than %d patterns", ErrPath, quote(pattern), maxAlternatives)
		}
		var next []string
		for _, head := range out {
			for _, tail := range unit {
				next = append(next, head+tail)
			}
		}
		out = next
	}
	return out, nil
}

// unitLen is how much of a pattern belongs together at its start: an escaped byte, a class, a whole brace, or one byte.
func unitLen(p string) int {
	switch p[0] {
	case '\\':
		return min(2, len(p))
	case '[':
		for i := 1; i < len(p); i++ {
			switch p[i] {
			case '\\':
				i++
			case ']':
				return i + 1
			}
		}
		return len(p)
	case '{':
		for i := 1; i < len(p); i += unitLen(p[i:]) {
			if p[i] == '}' {
				return i + 1
			}
		}
		return len(p)
	}
	return 1
}

// choices splits the inside of a brace at its own commas.
func choices(p string) []string {
	var out []string
	var b strings.Builder
	for i := 0; i < len(p); {
		size := unitLen(p[i:])
		if p[i] == ',' {
			out = append(out, b.String())
			b.Reset()
		} else {
			b.WriteString(p[i : i+size])
		}
		i += size
	}
	return append(out, b.String())
}
