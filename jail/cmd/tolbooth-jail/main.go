// Command tolbooth-jail is the part of tolbooth that runs jails: one small static binary with three roles, each a process of
// its own. The agent starts the warden from a sealed copy in memory; nobody starts the others by hand.
//
// The debug setting: the roles are given their GOMAXPROCS, and without it the runtime keeps two files of the node's cgroup
// open in each, in init too.
//
//go:debug containermaxprocs=0
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/tolbooth-dev/tolbooth/jail/launch"
	"github.com/tolbooth-dev/tolbooth/jail/pid1"
	"github.com/tolbooth-dev/tolbooth/jail/warden"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// init locks the main goroutine to the main thread before main runs: namespaces, ids, capabilities, the parent-death signal
// and ptrace all belong to a thread, and every role does them on this one.
func init() { runtime.LockOSThread() }

func main() {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	switch role {
	case "warden":
		os.Exit(warden.Main())
	case "init":
		os.Exit(pid1.Main())
	case "launch":
		os.Exit(launch.Main())
	}
	fmt.Fprintf(os.Stderr, "tolbooth-jail (build %s): confines one job at a time for the tolbooth agent, which starts it.\n"+
		"There is nothing to run by hand; see tolbooth help.\n", wire.Build)
	os.Exit(2)
}
