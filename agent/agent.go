package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/probe"
	"github.com/tolbooth-dev/tolbooth/cowfs/store"
	"github.com/tolbooth-dev/tolbooth/internal/undo"
)

// Run is the whole life of a node agent: it takes over the state directory, finds out what the node can do, clears away what
// an earlier agent left, serves until a signal, and gives everything back. A node that cannot run its jail mode is served
// too, unhealthy and saying why, since an agent that only restarts in a loop explains nothing.
func Run(cfg Config, signals <-chan os.Signal, logs io.Writer) (err error) {
	log := NewLogger(logs, cfg.LogLevel)
	back := &undo.Stack{}
	st := &steps{}
	defer func() { err = errors.Join(err, giveBack(back, st, log)) }()

	if err := os.MkdirAll(cfg.State, 0o711); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	lock, err := lockState(cfg.State)
	if err != nil {
		return err
	}
	back.Push("unlock the state directory", lock.Close)
	instance, err := instanceOf(cfg.State)
	if err != nil {
		return err
	}
	var bucket store.Store
	if cfg.FS.Enabled {
		if bucket, err = store.OpenFile(cfg.BucketDir()); err != nil {
			return fmt.Errorf("open the bucket: %w", err)
		}
	}
	jailProgram, err := jailBinary(&cfg)
	if err != nil {
		return err
	}

	usual, err := cfg.resolveLimits(api.Limits{})
	if err != nil {
		return err
	}

	most, err := newCeiling(cfg.Network.Permit)
	if err != nil {
		return err
	}
	ctx := context.Background()
	n := &node{cfg: &cfg, faults: &faults{}, steps: st}
	explainers := probe.FindExplainers()
	built, err := build(ctx, parts{
		Instance: instance, State: cfg.State, JailBinary: jailProgram, Mode: cfg.Backend, Explainers: explainers, Explainer: cfg.Explainer, MaxJobs: cfg.MaxJobs, Prepared: cfg.Prepared,
		LimitsMax: cfg.maxLimits(), Usual: usual, Grace: cfg.Grace, StartTime: cfg.StartTimeout, Extras: cfg.Extras, Bucket: bucket, Prefix: cfg.FS.Prefix, Pool4: cfg.Network.Pool4, Pool6: cfg.Network.Pool6,
		Internal: cfg.Network.Internal, Ceiling: most, Forward: cfg.Network.Forward, DNS: cfg.Network.DNS,
	}, n.faults, n.steps, log)
	if err != nil {
		log.Error("no job can run", keyErr, err)
		n.broken = err
	} else {
		back.Push("take the node's side down", built.Close)
	}
	n.built = built
	// After the parts, so that what they needed is not tried twice.
	n.found = probe.Run(ctx, probe.Options{StateDir: cfg.State, Egress: built.egressHook(), Explainers: &explainers})

	server, err := newServer(cfg, serverParts{
		Runner: n, Report: n.report, Words: n.words, Fault: n.faults.add, Programs: n.found.Languages, Log: log,
	})
	if err != nil {
		return err
	}
	if built != nil {
		stop := built.keepFlushing(log)
		back.Push("stop retrying parked workspaces", stop)
	}
	if err := server.Listen(); err != nil {
		return err
	}
	what := "ready"
	if n.broken != nil {
		what = "serving, but no job can run"
	}
	log.Info(what, "instance", instance, keyMode, string(cfg.Backend), "state", cfg.State)
	return server.Run(signals)
}

// closeTime is how long an agent that ends may take to give everything back. The next agent clears away what is left.
const closeTime = 15 * time.Second

// giveBack undoes what the agent holds. It does not wait for what hangs in the kernel, and says what that is.
func giveBack(back *undo.Stack, st *steps, log *slog.Logger) error {
	names := back.Names()
	done := make(chan error, 1)
	go func() { done <- back.Run() }()
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	for _, h := range st.hanging() {
		log.Error("left behind: a step hangs in the kernel", "step", h.name, keyJob, h.job, "since", h.since)
	}
	return fmt.Errorf("not everything was given back within %s, of: %s; the next agent with this state directory clears it away", closeTime, strings.Join(names, ", "))
}

// jailBinary is where tolbooth-jail lies.
func jailBinary(cfg *Config) (string, error) {
	if cfg.JailBinary != "" {
		return cfg.JailBinary, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find tolbooth-jail: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "tolbooth-jail"), nil
}

// lockState makes sure that one agent at a time uses a state directory. The lock goes with the process.
func lockState(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another agent uses the state directory %s: flock: %w", dir, err), f.Close())
	}
	return f, nil
}

var instancePattern = regexp.MustCompile(`^[0-9a-f]{4}$`)

// instanceOf is the mark of this agent's kernel objects: 4 hex digits, drawn once for a state directory and written before
// the first object exists, so that whatever an agent leaves can be found by name.
func instanceOf(dir string) (string, error) {
	path := filepath.Join(dir, "instance")
	text, err := os.ReadFile(path)
	if err == nil {
		if id := strings.TrimSpace(string(text)); instancePattern.MatchString(id) {
			return id, nil
		}
		return "", fmt.Errorf("%s does not hold 4 hex digits; remove it if no agent of this directory runs", path)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the instance: %w", err)
	}
	b := make([]byte, 2)
	rand.Read(b) // never fails
	id := hex.EncodeToString(b)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return "", fmt.Errorf("write the instance: %w", err)
	}
	_, err = f.WriteString(id + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("write the instance: %w", err)
	}
	return id, os.Rename(path+".tmp", path)
}
