package api

// Signal is the body of POST /v1/jobs/{id}/signal.
type Signal struct {
	Signal string `json:"signal"`
}

// StdinTaken is the answer of POST /v1/jobs/{id}/stdin.
type StdinTaken struct {
	Bytes  int64 `json:"bytes"`  // of this request's body, now in the job's pipe
	Closed bool  `json:"closed"` // the job sees the end of its input
}

// StateEvent is the data of an event of type state. Everything but State belongs to the finished state.
type StateEvent struct {
	State    State   `json:"state"`
	Outcome  Outcome `json:"outcome,omitzero"`
	Detail   string  `json:"detail,omitzero"`
	ExitCode *int    `json:"exit_code,omitzero"`
	Signal   *string `json:"signal,omitzero"`
	Limit    *Limit  `json:"limit,omitzero"`
}

// ExitEvent is the data of an event of type exit: how the command ended, before the workspace is flushed and the outcome
// is known. Every job has exactly one, even when its command never ran.
type ExitEvent struct {
	Cause       string  `json:"cause"` // exit, signal, wall, cpu, memory, pids, output, disk, cancelled, start_failed, lost
	ExitCode    *int    `json:"exit_code"`
	Signal      *string `json:"signal"`
	Detail      string  `json:"detail,omitzero"`
	StdoutBytes int64   `json:"stdout_bytes"`
	StderrBytes int64   `json:"stderr_bytes"`
	Truncated   bool    `json:"truncated"`
}
