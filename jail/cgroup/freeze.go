package cgroup

import (
	"fmt"
	"time"
)

// freezeWait bounds Freeze. A process stops at its next return to user space; only one that sleeps uninterruptibly
// (a slow disk) takes longer than a few milliseconds.
const freezeWait = 5 * time.Second

// Freeze stops all processes of the group and returns when they stand still. On failure the group is thawed again.
func (g Group) Freeze() error {
	if err := g.Hold(); err != nil {
		return err
	}
	frozen, err := g.awaitEvent("frozen", 1, freezeWait)
	if err == nil && !frozen {
		err = fmt.Errorf("freeze %s: not frozen after %v", g.Unified, freezeWait)
	}
	if err != nil {
		if terr := g.Thaw(); terr != nil {
			return fmt.Errorf("%w (and %w)", err, terr)
		}
		return err
	}
	return nil
}

// Thaw lets the processes of a frozen group go on. Thawing a group that is not frozen does nothing.
func (g Group) Thaw() error {
	if err := write(g.Unified, "cgroup.freeze", "0"); err != nil {
		return fmt.Errorf("thaw: %w", err)
	}
	return nil
}

// Hold starts to freeze the group and does not wait: who is inside a system call goes on until it returns. Thaw undoes it.
func (g Group) Hold() error {
	if err := write(g.Unified, "cgroup.freeze", "1"); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	return nil
}

// Frozen tells whether every process of the group stands still.
func (g Group) Frozen() (bool, error) {
	n, err := readKey(g.Unified, "cgroup.events", "frozen")
	return n == 1, err
}
