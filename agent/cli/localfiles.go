package cli

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// maxLocal bounds one local file or source text that is sent along: larger ones belong in a workspace.
const maxLocal = 64 << 20

// localFiles reads LOCAL[:DEST] arguments. Without DEST a file lands in the workspace under its own name.
func localFiles(args []string) ([]api.File, error) {
	var files []api.File
	for _, arg := range args {
		local, dest, ok := strings.Cut(arg, ":")
		if !ok {
			dest = filepath.Base(local)
		}
		if local == "" || dest == "" {
			return nil, usagef("--file %q: want LOCAL or LOCAL:DEST", arg)
		}
		data, err := readLocal(local)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(local)
		if err != nil {
			return nil, err
		}
		f := api.File{Path: dest, Mode: fmt.Sprintf("%04o", info.Mode().Perm())}
		f.Content, f.Encoding = encode(data)
		files = append(files, f)
	}
	return files, nil
}

func readLocal(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f, name)
}

func readBounded(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxLocal+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxLocal {
		return nil, fmt.Errorf("read %s: larger than %d MiB", name, maxLocal>>20)
	}
	return data, nil
}

// encode gives bytes the form that the API carries them in.
func encode(data []byte) (content, encoding string) {
	if utf8.Valid(data) {
		return string(data), "utf-8"
	}
	return base64.StdEncoding.EncodeToString(data), "base64"
}
