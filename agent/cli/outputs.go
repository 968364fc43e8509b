package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/client"
)

// writeOutputs writes returned files below dir. The job chose names, contents and modes: os.Root keeps every path below
// dir, and no file gets more than the ordinary permission bits.
func (t *tool) writeOutputs(dir string, outputs []api.Output) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, o := range outputs {
		if o.Omitted != "" {
			continue
		}
		if err := writeOutput(root, o); err != nil {
			return fmt.Errorf("write output %.128q: %w", o.Path, err)
		}
	}
	return nil
}

func writeOutput(root *os.Root, o api.Output) error {
	data, err := client.Decode(o.Content, o.Encoding)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(path.Clean(o.Path), "/")
	if parent := path.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o777); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, outputMode(o.Mode))
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func outputMode(octal string) fs.FileMode {
	n, err := strconv.ParseUint(octal, 8, 32)
	if err != nil {
		return 0o644
	}
	return fs.FileMode(n) & 0o777
}
