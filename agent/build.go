package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/agent/probe"
	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/cowfs"
	"github.com/tolbooth-dev/tolbooth/cowfs/store"
	"github.com/tolbooth-dev/tolbooth/internal/undo"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/cgroup"
	seccomp "github.com/tolbooth-dev/tolbooth/jail/filter"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
	"github.com/tolbooth-dev/tolbooth/netns"
)

// parts say what a spine is built from.
type parts struct {
	Instance   string // 4 hex digits: the mark of this agent's kernel objects
	State      string
	JailBinary string
	Mode       jail.Mode
	Explainers probe.Explainers
	Explainer  string // of them: auto, notify, ptrace
	MaxJobs    int
	Prepared   int // places kept ready
	LimitsMax  limits
	Usual      limits // of a job that names none
	Grace      time.Duration
	StartTime  time.Duration // that a step of a start may take
	Extras     []string      // of policies, that requests may ask for
	Bucket     store.Store   // nil: no named workspaces
	Prefix     string
	Pool4      netip.Prefix
	Pool6      netip.Prefix
	Internal   []netip.Prefix // ranges that no job reaches, on top of the node's own addresses
	Ceiling    ceiling        // of what requests may allow
	Forward    bool           // turn IP forwarding on
	DNS        DNSConfig
}

// built is a spine and what must be closed after it.
type built struct {
	*spine
	fs        *cowfs.Manager
	cgroups   *cgroup.Parent
	pool      *places
	problems  []api.NodeProblem
	reclaimed int64      // leftovers of an earlier agent
	resolv    []byte     // resolv.conf of jobs with a network of their own
	network   undo.Stack // of the network: its opening may hang while the rest is given back
	back      undo.Stack
}

// build opens the parts in order, each after what an earlier agent of this state directory left of it was cleared away.
// Precondition: the caller holds the state directory's lock. An error names the part; what was opened is closed again.
func build(ctx context.Context, o parts, f *faults, st *steps, log *slog.Logger) (_ *built, err error) {
	b := &built{spine: &spine{log: log, faults: f, steps: st, limit: o.StartTime, flushes: &flushes{}, filters: &seccomp.Cache{}, extras: o.Extras, limitsMax: o.LimitsMax, grace: o.Grace}}
	defer func() {
		switch {
		case errors.Is(err, errNoAnswer): // what was opened before is in the hands of what hangs
			go func() {
				if err := b.Close(); err != nil {
					log.Error("give back what was opened", keyErr, err)
				}
			}()
		case err != nil:
			err = errors.Join(err, b.Close())
		}
	}()
	try := attempt{ctx: ctx, steps: st, back: &b.back, limit: o.StartTime}
	// A warden that dies leaves its init to the next reaper above: that must be this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the reaper of wardens' children: %w", err)
	}

	usable, err := usableCPUs()
	if err != nil {
		return nil, err
	}
	b.cpus = newCPUSpread(usable)
	usual, err := policy.Default(runtime.GOARCH)
	if err != nil {
		return nil, fmt.Errorf("syscall policy: %w", err)
	}
	if _, err := b.filters.Get(usual); err != nil {
		return nil, fmt.Errorf("compile the syscall policy: %w", err)
	}

	explainer, err := o.Explainers.Choose(o.Explainer)
	if err != nil && o.Mode == jail.Syd {
		return nil, err
	}
	b.engine = jail.Engine(explainer)

	launcher, err := jail.NewLauncher(o.JailBinary)
	if err != nil {
		return nil, fmt.Errorf("%w (tolbooth-jail must lie beside tolbooth, or be named by jail_binary)", err)
	}
	b.back.Push("close the launcher", launcher.Close)

	if b.cgroups, err = cgroup.OpenParent("tb-"+o.Instance, supervisor()...); err != nil {
		return nil, err
	}
	b.back.Push("remove the cgroups", b.cgroups.Close)
	if left, err := b.cgroups.Sweep(); err != nil {
		return nil, fmt.Errorf("clear away an earlier agent's jails: %w", err)
	} else if len(left) > 0 {
		b.reclaimed += int64(len(left))
		log.Warn("cleared away jails that an earlier agent left", "count", len(left))
	}

	if b.fs, err = cowfs.Open(cowfs.Options{StateDir: o.State, Bucket: o.Bucket, Prefix: o.Prefix}); err != nil {
		return nil, fmt.Errorf("open the workspaces: %w", err)
	}
	b.back.Push("close the workspaces", b.fs.Close)
	b.files = b.fs.Support()
	if b.disk, err = newDiskWatch(b.fs.InUse, b.files.Prompt, b.faults, log); err != nil {
		return nil, fmt.Errorf("watch the disk: %w", err)
	}
	b.back.Push("end the disk watch", b.disk.Close)
	if err := b.reclaim(); err != nil {
		return nil, fmt.Errorf("clear away an earlier agent's trees: %w", err)
	}

	b.back.Push("take the network down", b.network.Run)
	if err := try.within("set up the node's network", func(context.Context) error { return b.openNetwork(o) }); err != nil {
		return nil, err
	}
	pool := netns.NewPool(o.Prepared + 2)
	b.back.Push("close the prepared namespaces", pool.Close)

	b.pool = &places{
		mode: o.Mode, engine: b.engine, launcher: launcher, cgroups: b.cgroups, netns: pool, fs: b.fs, faults: b.faults, steps: st, cpus: b.cpus,
		// Twice as many slots as jobs, so that finished jobs can be taken down behind running ones and ids rest before
		// they are used again.
		slots: uint32(min(maxSlots, 2*o.MaxJobs+o.Prepared+8)), usual: o.Usual,
	}
	_, err = within(try, "make a first jail", func(ctx context.Context) (*places, error) { return b.pool, b.pool.start(ctx, o.Prepared) }, (*places).Close)
	if err != nil {
		return nil, err
	}
	b.back.Push("discard the prepared places", b.pool.Close)
	b.back.Push("wait for what finished jobs still hold", func() error { b.undoing.Wait(); return nil })

	b.spine.places = b.pool
	b.spine.trees = &trees{fs: b.fs, flushes: b.flushes, resolv: b.resolv, shared: jobResolvConf(o.DNS.ResolvConf, resolvedConf)}
	return b, ctx.Err()
}

// openNetwork sets up the node's side of the jails' networks and the egress control. A syd jail does not run without the
// control; a minimal one does, and then gets no network of its own.
func (b *built) openNetwork(o parts) error {
	links, problems, err := netns.Open(netns.Options{Instance: o.Instance, Pool4: o.Pool4, Pool6: o.Pool6, SetForwarding: o.Forward})
	if err != nil {
		return err
	}
	b.network.Push("remove the node's side of the network", links.Close)
	for _, p := range problems {
		b.problems = append(b.problems, api.NodeProblem(p))
	}
	if err := links.Sweep(); err != nil {
		return fmt.Errorf("clear away an earlier agent's links: %w", err)
	}
	closed := append(links.Pools(), o.Internal...) // to every job, beside the node's own addresses
	own, err := links.NodePrefixes()
	if err != nil {
		return err
	}
	egress, err := bpf.Load(bpf.Options{Cgroup: b.cgroups.Group().Unified, Node: append(own, closed...), Slots: maxSlots})
	if err != nil && o.Mode == jail.Syd {
		return fmt.Errorf("load the egress control: %w", err)
	}
	if err != nil {
		b.problems = append(b.problems, api.NodeProblem{
			What: "no egress control: jobs that want a network are refused, and a refused connection is not explained",
			Why:  err.Error(), Fix: "see `tolbooth doctor`, layer ebpf-egress",
		})
		b.spine.nets = noNets{}
		return nil
	}
	b.network.Push("unload the egress control", egress.Close)
	l, err := b.openLookups(o.DNS, egress)
	if err != nil {
		return err
	}
	b.spine.nets, b.egress = newNets(egress, links, l, o.Ceiling, b.spine.faults), string(egress.Hook())
	return b.followAddresses(links, egress, closed)
}

// followAddresses keeps the node's own addresses closed to jobs when they change.
func (b *built) followAddresses(links *netns.Manager, egress *bpf.Egress, closed []netip.Prefix) error {
	done := make(chan struct{})
	b.network.Push("stop following the node's addresses", func() error { close(done); return nil })
	update := func() error {
		own, err := links.NodePrefixes()
		if err != nil {
			return err
		}
		return egress.SetNode(append(own, closed...))
	}
	err := links.WatchAddresses(done, func() {
		if err := update(); err != nil {
			b.faults.add("node addresses", err)
		}
	})
	return errors.Join(err, update()) // once more: an address may have come before anyone listened
}

// egressHook is where the egress programs sit; empty when they are not loaded.
func (b *built) egressHook() string {
	if b == nil {
		return ""
	}
	return b.egress
}

// ready are the places that wait for a job.
func (b *built) ready() chan *place { return b.pool.ready }

// Close gives everything back. No job may be running.
func (b *built) Close() error { return b.back.Run() }

// supervisor is process 1 when it started the agent: in a container, tolbooth-container shares the agent's control
// group and moves along with it. On a node, process 1 is never found in the agent's group.
func supervisor() []int {
	if os.Getppid() != 1 {
		return nil
	}
	return []int{1}
}
