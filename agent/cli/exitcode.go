package cli

import (
	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// Exit codes of `tolbooth run` for a job that did not exit by itself. 124 and 137 are those of timeout(1) and of a
// process killed for memory; the other limits take 128 + the signal that the kernel has, or would have, for them.
const (
	exitWall        = 124
	exitStartFailed = 126
	exitCancelled   = 130
	exitMemory      = 137
	exitBrokenPipe  = 128 + 13 // SIGPIPE
	exitCPU         = 128 + 24 // SIGXCPU
	exitOutput      = 128 + 25 // SIGXFSZ
	exitDisk        = 128 + 26
	exitPids        = 128 + 27
	exitDenied      = 128 + 31 // SIGSYS
)

const exitCodesHelp = `Exit codes: the command's own; 124 wall limit; 125 tolbooth failed (or lost the job); 126 the command could not be
started; 128+n ended by signal n; 130 cancelled; 137 memory limit; 152 CPU limit; 153 output limit; 154 disk limit;
155 pids limit; 159 ended by a refusal; 2 wrong usage.`

// exitCode is the exit code that says how a job ended.
func exitCode(r *api.Result) int {
	switch r.Outcome {
	case api.OutcomeOK:
		return 0
	case api.OutcomeExit:
		if r.ExitCode != nil {
			return *r.ExitCode
		}
	case api.OutcomeSignal:
		if r.Signal != nil {
			if n := unix.SignalNum(*r.Signal); n != 0 {
				return 128 + int(n)
			}
		}
	case api.OutcomeWallLimit:
		return exitWall
	case api.OutcomeMemoryLimit:
		return exitMemory
	case api.OutcomeCPULimit:
		return exitCPU
	case api.OutcomeOutputLimit:
		return exitOutput
	case api.OutcomeDiskLimit:
		return exitDisk
	case api.OutcomePidsLimit:
		return exitPids
	case api.OutcomeDenied:
		return exitDenied
	case api.OutcomeCancelled:
		return exitCancelled
	case api.OutcomeStartFailed:
		return exitStartFailed
	}
	return exitFailed // agent_lost, and whatever a newer agent may say: never a success
}
