// Command tolbooth is the node agent and its command line.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/tolbooth-dev/tolbooth/agent/cli"
)

// version is set by the build; a build without it says which commit it is of.
var version string

func main() {
	os.Exit(cli.Main(context.Background(), os.Args, cli.Options{
		Version: buildVersion(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Getenv:  os.Getenv,
	}))
}

func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
			return "devel-" + setting.Value[:12]
		}
	}
	return "devel"
}
