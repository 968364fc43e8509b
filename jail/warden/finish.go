package warden

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tolbooth-dev/tolbooth/jail/spool"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// killPatience is how long a killed jail may take to go. Only a process stuck inside the kernel takes longer.
const killPatience = 10 * time.Second

// finish kills what is left of the jail, records how the run ended, tells the agent, and ends the warden.
func (r *run) finish(exit wire.Exit) {
	problem := errors.Join(r.killAll(), r.pump.drain())
	suppressed, err := r.denials.close()
	problem = errors.Join(problem, err)
	exit.StdoutBytes, exit.StderrBytes = r.pump.streams[0].total, r.pump.streams[1].total
	exit.Truncated, exit.Suppressed = r.pump.truncated, suppressed
	exit.Landlock, exit.CoreSched, exit.ExitKill = r.landlock, r.coreSched, r.exitKill
	exit.WardenUS = r.own.used().Microseconds()
	if exit.Truncated && (exit.Cause == wire.CauseExit || exit.Cause == wire.CauseSignal) {
		exit.Cause = wire.CauseOutput // it printed too much and ended before anyone saw
	}
	if problem != nil && exit.Error == "" {
		exit.Cause, exit.Step, exit.Error = wire.CauseLost, "finish", problem.Error()
	}
	payload, err := json.Marshal(exit)
	if err != nil {
		os.Exit(2) // cannot happen: a struct of numbers and strings
	}
	// One of the two reaches the agent, or the next one. If neither can be written, the agent finds the spool without an end.
	code := 0
	if r.record.append(spool.Exit, payload) != nil {
		code = 1
	}
	if r.control.Send(&wire.Ended{Exit: payload}) != nil && code == 1 {
		code = 2
	}
	os.Exit(code)
}

// killAll kills the group until no process of the jail is left.
func (r *run) killAll() error {
	deadline := time.After(killPatience)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		if err := r.group.Kill(); err != nil {
			return fmt.Errorf("kill cgroup: %w", err)
		}
		select {
		case <-r.reaped:
			return r.group.WaitEmpty(killPatience)
		case <-again.C:
		case <-deadline:
			pids, err := r.group.Processes()
			return errors.Join(fmt.Errorf("processes %v were killed %v ago and are still there", pids, killPatience), err)
		}
	}
}
