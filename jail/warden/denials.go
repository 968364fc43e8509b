package warden

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/jail/cbpf"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// maxDenials is how many different refusals a run records. The rest is counted in Exit.Suppressed.
const maxDenials = 256

// refusal is what makes two refusals the same: which call, the arguments that tell one use from another, who called.
type refusal struct {
	arch    uint32
	nr      uint32
	args    [6]uint64
	program string
}

// denials records refused calls: each kind once when it is first seen, and its repeats as one number at the end.
type denials struct {
	record     *recorder
	throttle   throttle
	mu         sync.Mutex // guards what follows: close may come while a caller that cannot be killed is still served
	seen       map[refusal]*wire.Denial
	suppressed int64
	closed     bool
}

func newDenials(record *recorder) *denials {
	return &denials{record: record, throttle: throttle{tokens: burst}, seen: map[refusal]*wire.Denial{}}
}

// add takes note of one refusal by a thread that waits. What was read about the thread counts if it still waits afterwards:
// else it may have been killed, and its number be another's.
func (d *denials) add(tid int, call *cbpf.Call, errno unix.Errno, waits func() bool) error {
	d.throttle.wait()
	key := refusal{arch: call.Arch, nr: call.NR, args: telling(call)}
	if program := comm(tid); waits() {
		key.program = program
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	if known := d.seen[key]; known != nil {
		known.Count++
		return nil
	}
	if len(d.seen) == maxDenials {
		d.suppressed++
		return nil
	}
	first := &wire.Denial{
		Arch: call.Arch, NR: int(int32(call.NR)), Args: call.Args, Errno: int(errno), Program: key.program, AtUS: d.record.elapsedUS(), Count: 1,
	}
	if pid := jailPID(tid); waits() {
		first.PID = pid
	}
	d.seen[key] = first
	err := d.write(first)
	first.Count = 0 // from here on it counts the repeats
	return err
}

// close records the repeats. What comes later is not recorded: the run's end is the last record.
func (d *denials) close() (suppressed int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	var errs []error
	for _, repeats := range d.seen {
		if repeats.Count > 0 {
			errs = append(errs, d.write(repeats))
			repeats.Count = 0
		}
	}
	return d.suppressed, errors.Join(errs...)
}

func (d *denials) write(denial *wire.Denial) error {
	payload, err := json.Marshal(denial)
	if err != nil {
		return fmt.Errorf("encode denial: %w", err)
	}
	return d.record.append(spool.Denial, payload)
}

// comm is the thread's name, which the job chooses; empty when the thread is gone.
func comm(tid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/comm")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSuffix(b, []byte("\n")))
}

// jailPID is the thread's process as the jail numbers it; 0 when it is gone.
func jailPID(tid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0
	}
	return lastNumber(status, "NStgid:")
}

// lastNumber reads the last number of a line of /proc/PID/status. NStgid lists the process's number in every nested pid
// namespace, the innermost last.
func lastNumber(status []byte, key string) int {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			fields := bytes.Fields(rest)
			if len(fields) == 0 {
				return 0
			}
			n, err := strconv.Atoi(string(fields[len(fields)-1]))
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// A refusal costs the warden some 10 to 40 µs, which count for the job's cpu limit but not for its share of the node's CPUs.
// Beyond a burst the callers wait, and with them everyone of the same job who needs the warden.
const (
	burst = 10000
	pause = time.Millisecond
	rate  = 2 // refusals a pause
)

type throttle struct {
	tokens float64
	lastNS int64
}

func (t *throttle) wait() {
	at := now()
	if t.lastNS != 0 {
		t.tokens = min(burst, t.tokens+rate*float64(at-t.lastNS)/float64(pause))
	}
	t.lastNS = at
	if t.tokens < 1 {
		time.Sleep(pause)
		return
	}
	t.tokens--
}
