package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tolbooth-dev/tolbooth/cowfs"
	"github.com/tolbooth-dev/tolbooth/internal/undo"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
	"github.com/tolbooth-dev/tolbooth/netns"
)

// idBase is the host id that jail id 0 of slot 0 maps to; each slot has the next 65536 ids. The range lies above what
// systemd and container engines hand out (uid ranges 524288..1879048191) and below 2^31.
const (
	idBase   = 0x7000_0000
	idsASlot = 1 << 16
	maxSlots = 4096
)

// place is where one job lives: ids, a cgroup, an empty network namespace and a jail whose warden and init wait.
// Everything in it was made for one job and is never used for a second one.
type place struct {
	slot  uint32
	group group
	dir   string           // the group's v2 directory
	netns *netns.Namespace // nil: the agent's own network
	cell  cell
	tree  *cowfs.Tree  // an ephemeral one; nil: the job's own is made when it is known
	tmpfs []jail.Tmpfs // memory file systems of a root that is built; nil: it is not built yet
	shown []int        // CPUs that its /sys shows
	back  undo.Stack   // from newest to oldest: jail, namespace, cgroup, tree, slot
}

func (p *place) base() uint32 { return idBase + p.slot*idsASlot }

// kill ends every process of the place and returns when none is left.
func (p *place) kill() error {
	if err := p.group.Kill(); err != nil {
		return err
	}
	return p.group.WaitEmpty(killPatience)
}

// killPatience is how long killed processes may take to go. Only one stuck inside the kernel takes longer.
const killPatience = 10 * time.Second

// own makes the job's program the owner of its stdin, so that it can reopen it as /dev/stdin. Text needs none: anybody may
// read it, and its owner could make it executable.
func (p *place) own(f *os.File) error {
	if f == nil {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat stdin: %w", err)
	}
	if info.Mode().IsRegular() {
		return nil
	}
	return f.Chown(int(p.base()+jobUID), int(p.base()+jobGID))
}

// Release gives everything back, the slot last.
func (p *place) Release() error { return p.back.Run() }

// places makes places, and keeps a few of the node's own mode ready, since most of the cost of a jail is three process
// starts that need to know nothing of the job.
type places struct {
	mode     jail.Mode // of the prepared ones
	engine   jail.Engine
	launcher *jail.Launcher
	cgroups  *cgroup.Parent
	netns    *netns.Pool
	fs       *cowfs.Manager
	faults   *faults
	steps    *steps
	slots    uint32
	cpus     *cpuSpread
	usual    limits // of a job that names none: what prepared places are made for

	ready chan *place
	want  chan struct{} // one token a place that should be made ahead of time
	wg    sync.WaitGroup
	stop  context.CancelFunc

	mu    sync.Mutex
	inUse map[uint32]bool // slots; guarded by mu
	next  uint32          // guarded by mu
}

// start makes a first place here and now, so that a node that cannot make any says so, and from then on keeps n ready.
func (ps *places) start(ctx context.Context, n int) error {
	ps.inUse, ps.ready, ps.want = map[uint32]bool{}, make(chan *place, n), make(chan struct{}, n)
	first, err := ps.makeAhead(ctx)
	if err != nil {
		return err
	}
	if n == 0 {
		ps.stop = func() {}
		return first.Release()
	}
	ps.ready <- first
	for range n - 1 {
		ps.want <- struct{}{}
	}
	ctx, ps.stop = context.WithCancel(context.WithoutCancel(ctx))
	ps.wg.Go(func() { ps.keepReady(ctx) })
	return nil
}

// keepReady makes a place for each token. A failure is reported and tried again, slower each time.
func (ps *places) keepReady(ctx context.Context) {
	wait := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ps.want:
		}
		under := ps.steps.begin("prepare a jail ahead", "")
		p, err := ps.makeAhead(ctx)
		ps.steps.end(under, err == nil)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			ps.faults.add("prepare", err)
			wait = min(max(2*wait, 100*time.Millisecond), 10*time.Second)
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
				ps.want <- struct{}{}
				continue
			}
		}
		wait = 0
		ps.ready <- p
	}
}

// Take hands out a place for one job: a prepared one where it fits, else a new one. A named workspace needs a root of its own.
func (ps *places) Take(ctx context.Context, w *work) (*place, error) {
	for w.Mode == ps.mode && !w.hostNetwork() && w.Workspace == "" {
		select {
		case p := <-ps.ready:
			ps.want <- struct{}{}
			if alive, err := p.group.Populated(); err == nil && alive {
				return p, nil
			}
			ps.faults.add("prepare", errors.Join(errors.New("a prepared jail died while it waited"), p.Release()))
			continue
		default:
		}
		break
	}
	return ps.make(ctx, w.Mode, w.hostNetwork())
}

// makeAhead makes a place for an ephemeral job of the node's own mode, its root built.
func (ps *places) makeAhead(ctx context.Context) (_ *place, err error) {
	p, err := ps.make(ctx, ps.mode, false)
	if err != nil {
		return nil, err
	}
	if p.tree, err = ps.fs.Prepare(p.slot, p.base()); err == nil {
		p.back.Push("discard the tree", p.tree.Discard)
		p.back.Push("end every process", p.kill)
		err = p.build(ctx, p.tree, memoryOf(ps.usual), ps.cpus.first(ps.usual.CPUs.Value))
	}
	if err != nil {
		return nil, errors.Join(err, p.Release())
	}
	return p, nil
}

// build puts the root in place, unless it is.
func (p *place) build(ctx context.Context, t rooted, tmpfs []jail.Tmpfs, cpus []int) error {
	if p.tmpfs != nil {
		return nil
	}
	root := jail.Root{Mount: t.Root(), Tmpfs: tmpfs, CPUs: cpus}
	for _, m := range t.Mounts() {
		root.Mounts = append(root.Mounts, jail.Mount{Target: m.Target, File: m.File})
	}
	p.tmpfs, p.shown = tmpfs, cpus
	return p.cell.Build(ctx, root)
}

// resize lists the memory file systems of the root that the job wants otherwise.
func (p *place) resize(want []jail.Tmpfs) []jail.Tmpfs {
	var list []jail.Tmpfs
	for i, t := range want {
		if t != p.tmpfs[i] {
			list = append(list, t)
		}
	}
	return list
}

// show is the list of CPUs that the root has to show from now on; nil: it does.
func (p *place) show(cpus []int) []int {
	if slices.Equal(p.shown, cpus) {
		return nil
	}
	return cpus
}

// make makes a place from nothing: slot, cgroup, network namespace, warden and init.
func (ps *places) make(ctx context.Context, mode jail.Mode, hostNetwork bool) (_ *place, err error) {
	p := &place{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Release())
		}
	}()

	if p.slot, err = ps.claim(); err != nil {
		return nil, err
	}
	p.back.Push("free the slot", func() error { ps.free(p.slot); return nil })

	g, err := ps.cgroups.Create(fmt.Sprintf("%04x", p.slot))
	if err != nil {
		return nil, err
	}
	p.group, p.dir = g, g.Unified
	p.back.Push("remove the cgroup", func() error { return errors.Join(p.kill(), g.Remove()) })

	at := jail.Place{Mode: mode, UIDBase: p.base(), Cgroup: g, Hostname: "sandbox"}
	if mode == jail.Syd {
		at.Engine = ps.engine
	}
	if !hostNetwork {
		if p.netns, err = ps.netns.Take(ctx); err != nil {
			return nil, fmt.Errorf("make a network namespace: %w", err)
		}
		p.back.Push("close the network namespace", p.netns.Close)
		at.Netns = p.netns.File()
	}

	prepared, err := ps.launcher.Prepare(ctx, at)
	if err != nil {
		return nil, err
	}
	p.cell = preparedCell{prepared}
	p.back.Push("end the jail", prepared.Close)
	return p, nil
}

// preparedCell is a jail.Prepared whose commands are seen through this package's interface.
type preparedCell struct{ *jail.Prepared }

func (c preparedCell) Start(ctx context.Context, s jail.Spec) (running, error) {
	proc, err := c.Prepared.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	return proc, nil
}

// claim reserves the least recently used free slot, so that ids and addresses rest as long as possible between jobs.
func (ps *places) claim() (uint32, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for range maxSlots {
		slot := ps.next
		ps.next = (ps.next + 1) % ps.slots
		if !ps.inUse[slot] {
			ps.inUse[slot] = true
			return slot, nil
		}
	}
	return 0, errors.New("all slots are in use: more jails are still being taken down than run")
}

func (ps *places) free(slot uint32) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.inUse, slot)
}

// Close ends the maker and discards what is ready. No Take may follow.
func (ps *places) Close() error {
	ps.stop()
	go func() { ps.wg.Wait(); close(ps.ready) }()
	var errs []error
	for p := range ps.ready {
		errs = append(errs, p.Release())
	}
	return errors.Join(errs...)
}
