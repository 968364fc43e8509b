package cowfs

import (
	"context"
	"fmt"
)

// lease is the right to use a named workspace, held by one tree of this agent at a time. Between agents there is no
// lease: the conditional write of a workspace's head decides, and who loses is told so.
type lease struct {
	m    *Manager
	name string
	done chan struct{} // closed on release
}

// take leases a workspace. While another tree has it, take waits for it or fails with ErrBusy.
func (m *Manager) take(ctx context.Context, name string, wait bool) (*lease, error) {
	if !namePattern.MatchString(name) {
		return nil, fmt.Errorf("%w: workspace %s (want [a-z0-9][a-z0-9._-]{0,62})", ErrName, quote(name))
	}
	if m.opts.Bucket == nil {
		return nil, fmt.Errorf("%w: named workspaces are switched off", ErrUnsupported)
	}
	for {
		m.mu.Lock()
		held := m.leases[name]
		if held == nil {
			l := &lease{m: m, name: name, done: make(chan struct{})}
			m.leases[name] = l
			m.mu.Unlock()
			return l, nil
		}
		m.mu.Unlock()
		if !wait {
			return nil, fmt.Errorf("workspace %s: %w", name, ErrBusy)
		}
		select {
		case <-held.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("workspace %s: %w: %w", name, ErrBusy, context.Cause(ctx))
		}
	}
}

// release gives the workspace back. A second call does nothing.
func (l *lease) release() {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.m.leases[l.name] == l {
		delete(l.m.leases, l.name)
		close(l.done)
	}
}
