package explain

import (
	"fmt"
	"strings"
)

// named is a number that the kernel's headers have a name for.
type named struct {
	value uint64
	name  string
}

// symbol names a number as the kernel sees an int, or prints it.
func symbol(v uint64, table []named) string {
	v = uint64(uint32(v))
	for _, n := range table {
		if n.value == v {
			return n.name
		}
	}
	return fmt.Sprint(int32(v))
}

// hexSymbol is symbol for numbers that nobody writes in decimal.
func hexSymbol(v uint64, table []named) string {
	v = uint64(uint32(v))
	for _, n := range table {
		if n.value == v {
			return n.name
		}
	}
	return fmt.Sprintf("%#x", v)
}

// flags names the bits of a number; those without a name are added up. No bit at all reads as dots: what the call is
// about lies elsewhere.
func flags(v uint64, table []named) string {
	var words []string
	for _, n := range table {
		if v&n.value == n.value {
			words = append(words, n.name)
			v &^= n.value
		}
	}
	if v != 0 {
		words = append(words, fmt.Sprintf("%#x", v))
	}
	if len(words) == 0 {
		return "..."
	}
	return strings.Join(words, "|")
}
