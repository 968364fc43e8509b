package agent

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// signalWords say what ended a program, and why that is so.
var signalWords = map[unix.Signal]struct{ what, why string }{
	unix.SIGSEGV: {"use memory that is not mapped, or write memory that is read-only", "it is an error in the program, such as a pointer to nowhere or recursion without end; no rule of the jail is behind it"},
	unix.SIGBUS:  {"use a mapped page that the file behind it does not have", "the file is shorter than its mapping, or its file system was full when the page was first written"},
	unix.SIGFPE:  {"divide an integer by zero, or overflow a division", "it is an error in the program; no rule of the jail is behind it"},
	unix.SIGILL:  {"execute an instruction that this processor does not have", "the program was built for a newer processor, or ran into a trap of its compiler; no rule of the jail is behind it"},
	unix.SIGTRAP: {"stop at a breakpoint without a debugger", "the program ran into a trap of its own or of its compiler; no rule of the jail is behind it"},
	unix.SIGABRT: {"give up: the program ended itself with abort", "a failed assertion, an exception that nobody caught, or a damaged heap; what it printed on stderr usually says which"},
	unix.SIGXFSZ: {"make one file larger than limits.disk allows", "one file may be as large as the disk limit"},
	unix.SIGXCPU: {"use more CPU time than the program allowed itself", "the program set RLIMIT_CPU for itself; tolbooth's own CPU limit ends a job as cpu_limit"},
	unix.SIGSYS:  {"make a system call that the program forbade itself", "the program turned calls into this signal itself, by PR_SET_SYSCALL_USER_DISPATCH or, in the mode minimal, by a filter of its own; tolbooth's filter answers with an error and never kills"},
	unix.SIGPIPE: {"write into a pipe or connection that nobody reads any more", "the reader ended first; tolbooth reads stdout and stderr to the end"},
	unix.SIGKILL: {"go on after SIGKILL", "a process of the job, or somebody on the node, sent it; no limit of tolbooth ended this job"},
}

// signalled explains the signal that ended the command.
func (f fileFacts) signalled(sig unix.Signal) api.Denial {
	d := api.Denial{Layer: "signal", Rule: signalRule(sig), Count: 1, Fix: noFix, Evidence: fromKernel, AtMS: f.atMS}
	words, known := signalWords[sig]
	if !known {
		words.what = "go on after " + signalName(sig)
		words.why = "a process of the job, or a caller of the API, sent it; tolbooth sends signals only to jobs that it cancels or that reached a limit, and says so"
	}
	d.What, d.Why = words.what, words.why
	switch sig {
	case unix.SIGXFSZ:
		d.Fix, _ = raiseFix(f.limits, f.most, "disk")
	case unix.SIGBUS:
		if full, ok := f.someFull(""); ok && full.Layer == "limit" {
			d.Fix, d.Why = full.Fix, d.Why+"; "+full.Why
		}
	}
	return d
}

func signalRule(sig unix.Signal) string {
	return "signal." + strings.ToLower(signalName(sig))
}

// signalName is the signal's name; the real-time ones have none.
func signalName(sig unix.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig))
}

// shellReport is a shell's line about a child that a signal ended: "bash: line 3:    42 Segmentation fault".
var shellReport = regexp.MustCompile(`(?m): line [0-9]+: +[0-9]+ (Segmentation fault|Bus error|Floating point exception|Illegal instruction|Aborted|File size limit exceeded|Bad system call|Killed)`)

var shellWords = map[string]unix.Signal{
	"Segmentation fault": unix.SIGSEGV, "Bus error": unix.SIGBUS, "Floating point exception": unix.SIGFPE,
	"Illegal instruction": unix.SIGILL, "Aborted": unix.SIGABRT, "File size limit exceeded": unix.SIGXFSZ,
	"Bad system call": unix.SIGSYS, "Killed": unix.SIGKILL,
}

// children explains the signals that ended processes below the command, as a shell reports them: in a line of its own, or
// by exiting with 128 and the signal's number.
func (f fileFacts) children(exit *int, stderr []byte) []api.Denial {
	var set denialSet
	add := func(sig unix.Signal) {
		d := f.signalled(sig)
		d.What, d.Evidence = "in a process below the command: "+d.What, fromOutput
		set.add(d)
	}
	for _, m := range shellReport.FindAllSubmatch(stderr[max(0, len(stderr)-errorTail):], -1) {
		add(shellWords[string(m[1])])
	}
	if exit != nil && *exit > 128 && len(set.list) == 0 {
		sig := unix.Signal(*exit - 128)
		if _, fatal := signalWords[sig]; fatal && sig != unix.SIGPIPE && sig != unix.SIGTRAP {
			add(sig)
		}
	}
	return set.list
}
