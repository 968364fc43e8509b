package agent

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/spool"
)

// fakeRunner stands in for the spine. The command says what the job does: print TEXT…, cat (stdin to stdout), wait (until
// it is let go, signalled or cancelled), code N, panic, nostart, spam N.
type fakeRunner struct {
	letGo chan struct{} // closed: waiting jobs end

	mu    sync.Mutex
	began []string // ids in order
}

func newFakeRunner() *fakeRunner { return &fakeRunner{letGo: make(chan struct{})} }

type fakeProcess struct{ signals chan syscall.Signal }

func (p fakeProcess) Rewire(network) (int, error) { return 0, nil }

func (p fakeProcess) Signal(s syscall.Signal) error {
	select {
	case p.signals <- s:
		return nil
	default:
		return syscall.ESRCH
	}
}

func (f *fakeRunner) Run(ctx context.Context, w *work, p progress) api.Result {
	f.mu.Lock()
	f.began = append(f.began, w.ID)
	f.mu.Unlock()

	p.Enter(api.StateStarting)
	r := api.Result{Outcome: api.OutcomeOK, Isolation: api.Isolation{Mode: string(w.Mode), Grade: string(w.Mode)}}
	switch w.Command[0] {
	case "nostart":
		r.Outcome, r.Detail = api.OutcomeStartFailed, "prepare the jail: no such thing"
		return r
	case "panic":
		panic("secret inside")
	}
	proc := fakeProcess{signals: make(chan syscall.Signal, 8)}
	warden := &fakeWarden{writer: spool.NewWriter(w.Spool, w.Admitted), notify: p.Notify()}
	stdin := dupFile(w.Stdin)
	defer stdin.Close()
	p.Started(proc)
	p.Enter(api.StateRunning)
	exit := warden.run(ctx, f, w, proc, stdin)
	warden.append(spool.Exit, mustEncode(exit))

	c, err := collect(w.SpoolPath, w.Limits.Output.Value)
	if err != nil {
		r.Detail = err.Error()
	}
	c.fill(&r)
	switch exit.Cause {
	case jail.CauseCancelled:
		r.Outcome, r.Detail = api.OutcomeCancelled, context.Cause(ctx).Error()
	case jail.CauseSignal:
		name := "SIGTERM"
		r.Outcome, r.Signal = api.OutcomeSignal, &name
	default:
		r.ExitCode = &exit.Code
		if exit.Code != 0 {
			r.Outcome = api.OutcomeExit
		}
	}
	return r
}

type fakeWarden struct {
	writer *spool.Writer
	notify *os.File
}

func (w *fakeWarden) append(kind spool.Kind, payload []byte) {
	if err := w.writer.Append(kind, payload); err != nil {
		panic(err)
	}
	if _, err := w.notify.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		panic(err)
	}
}

func (w *fakeWarden) run(ctx context.Context, f *fakeRunner, job *work, proc fakeProcess, stdin *os.File) jail.Exit {
	exit := jail.Exit{Cause: jail.CauseExit}
	switch job.Command[0] {
	case "print":
		for _, text := range job.Command[1:] {
			w.append(spool.Stdout, []byte(text))
		}
	case "raw":
		w.append(spool.Stdout, []byte("a\xff"))
		w.append(spool.Stderr, []byte("grün"[:3]))
		w.append(spool.Denial, mustEncode(jail.Denial{NR: 101, Program: "x\xff"}))
	case "spam":
		for range 40 {
			w.append(spool.Stdout, []byte(strings.Repeat("y", 60<<10)))
		}
	case "code":
		exit.Code = 3
	case "cat":
		data, err := io.ReadAll(stdin)
		if err != nil {
			panic(err)
		}
		for piece := range slices.Chunk(data, spool.MaxPayload) {
			w.append(spool.Stdout, piece)
		}
	case "wait":
		select {
		case <-f.letGo:
		case <-proc.signals:
			exit.Cause, exit.Signal = jail.CauseSignal, int(syscall.SIGTERM)
		case <-ctx.Done():
			exit.Cause = jail.CauseCancelled
		}
	}
	return exit
}

// dupFile keeps what run hands to a warden open after the agent closed its own; nil becomes /dev/null.
func dupFile(f *os.File) *os.File {
	if f == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			panic(err)
		}
		return null
	}
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}

func mustEncode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// started returns the ids of jobs that were run, in order.
func (f *fakeRunner) started() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.began...)
}

// eventually waits for what other goroutines bring about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never came true: ", what)
		}
	}
}
