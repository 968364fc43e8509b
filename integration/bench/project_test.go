package bench

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// project is an archive of a C program of 21 files and the Makefile that builds it.
func project(b *testing.B) []byte {
	b.Helper()
	const units = 20
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	add := func(name, text string) {
		if err := w.WriteHeader(&tar.Header{Name: "project/" + name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			b.Fatal(err)
		}
	}
	var objects, calls, declarations strings.Builder
	for i := range units {
		fmt.Fprintf(&objects, " unit%d.o", i)
		fmt.Fprintf(&declarations, "int unit%d(int x);\n", i)
		fmt.Fprintf(&calls, "  sum += unit%d(argc + %d);\n", i, i)
		add(fmt.Sprintf("unit%d.c", i), unit(i))
	}
	add("units.h", declarations.String())
	add("main.c", "#include <stdio.h>\n#include \"units.h\"\nint main(int argc, char **argv) {\n  int sum = 0;\n  (void)argv;\n"+calls.String()+"  printf(\"%d\\n\", sum);\n  return 0;\n}\n")
	add("Makefile", "CFLAGS = -O1\nprogram: main.o"+objects.String()+"\n\t$(CC) -o $@ $^\n%.o: %.c units.h\n\t$(CC) $(CFLAGS) -c -o $@ $<\n")
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return archive.Bytes()
}

// unit is a source file with some work for a compiler.
func unit(i int) string {
	var text strings.Builder
	text.WriteString("#include <stdlib.h>\n#include <string.h>\n#include \"units.h\"\n")
	for f := range 10 {
		fmt.Fprintf(&text, "static int step%d(int x) {\n  char b[64];\n  memset(b, x, sizeof b);\n  for (int i = 0; i < 64; i++)\n    x = x * %d + b[i] %% 7;\n  return abs(x);\n}\n", f, 31+i+f)
	}
	fmt.Fprintf(&text, "int unit%d(int x) {\n", i)
	for f := range 10 {
		fmt.Fprintf(&text, "  x += step%d(x);\n", f)
	}
	text.WriteString("  return x;\n}\n")
	return text.String()
}
