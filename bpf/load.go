package bpf

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

// Hook is how packet programs are attached to a veth.
type Hook string

// The hooks. HookAuto takes clsact, and tcx on a kernel that has only that.
const (
	HookAuto   Hook = ""
	HookTCX    Hook = "tcx"
	HookClsact Hook = "clsact"
)

// Options say what Load attaches to and what no policy opens.
type Options struct {
	Cgroup   string         // cgroup v2 directory whose children are the jobs; required
	Metadata []netip.Prefix // nil: DefaultMetadata
	Node     []netip.Prefix // the node's own addresses and internal ranges
	Slots    uint32         // slots are 0..Slots-1; 0: 1024
	MaxRules int            // of one policy; 0: 1024
	Hook     Hook           // HookAuto unless one of them is to be forced
}

// Egress is the loaded control. Close it.
type Egress struct {
	objects  egressObjects
	cgroup   *os.File
	hook     Hook
	attach   func(ifindex int, fromJail, toJail *ebpf.Program) error
	slots    uint32
	maxRules int
	metadata []netip.Prefix
	adopted  bool
	events   *events

	mu       sync.Mutex // guards what follows, and writes to the maps that span several entries
	policies map[uint32]*heldPolicy
	byDigest map[[32]byte]uint32
	nextID   uint32
	cgroups  map[uint64]bool // bound by this process
	veths    map[uint32]bool
	pins     map[uint32]bool // sets of this process
	nextPins uint32
}

// Load loads the programs and attaches the socket hooks. Where an earlier agent's programs are attached to the same
// control group, their maps are taken over when they have the same shape, and the programs are replaced in place.
func Load(o Options) (*Egress, error) {
	if o.Slots == 0 {
		o.Slots = 1024
	}
	if o.MaxRules == 0 {
		o.MaxRules = 1024
	}
	if o.Metadata == nil {
		o.Metadata = DefaultMetadata()
	}
	// Kernels below 5.11 charge maps to RLIMIT_MEMLOCK; newer ones charge the control group and this does nothing.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise memory lock limit: %w", err)
	}
	dir, err := os.Open(o.Cgroup)
	if err != nil {
		return nil, fmt.Errorf("open control group: %w", err)
	}
	e := &Egress{
		cgroup: dir, slots: o.Slots, maxRules: o.MaxRules, metadata: o.Metadata,
		policies: map[uint32]*heldPolicy{}, byDigest: map[[32]byte]uint32{}, nextID: 1,
		cgroups: map[uint64]bool{}, veths: map[uint32]bool{}, pins: map[uint32]bool{}, nextPins: 1,
	}
	if err := e.load(o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Egress) load(o Options) error {
	old, err := e.attachedMaps()
	if err != nil {
		return err
	}
	defer closeMaps(old)
	if err := e.loadObjects(old); err != nil {
		return err
	}
	if err := e.chooseHook(o.Hook); err != nil {
		return err
	}
	if err := e.SetNode(o.Node); err != nil {
		return err
	}
	if err := e.adoptPolicies(); err != nil {
		return err
	}
	if err := e.adoptPins(); err != nil {
		return err
	}
	if e.events, err = openEvents(e.objects.TbEvents); err != nil {
		return err
	}
	return e.attachSockets()
}

func (e *Egress) loadObjects(old map[string]*ebpf.Map) error {
	spec, err := loadEgress()
	if err != nil {
		return fmt.Errorf("read egress object: %w", err)
	}
	spec.Maps["tb_slots"].MaxEntries = e.slots
	spec.Maps["tb_tallies"].MaxEntries = e.slots * tallies
	if len(old) == len(spec.Maps) {
		err = spec.LoadAndAssign(&e.objects, &ebpf.CollectionOptions{MapReplacements: old})
		if err == nil {
			e.adopted = true
		} else if !errors.Is(err, ebpf.ErrMapIncompatible) {
			return fmt.Errorf("load egress programs: %w", err)
		}
	}
	if !e.adopted {
		if err := spec.LoadAndAssign(&e.objects, nil); err != nil {
			return fmt.Errorf("load egress programs: %w", err)
		}
	}
	// Bound to one attached program, every map lives as long as the control group does, and the next agent finds it there.
	for _, m := range e.maps() {
		if err := e.objects.TbConnect4.BindMap(m); err != nil {
			return fmt.Errorf("bind map %s to its program: %w", m, err)
		}
	}
	return nil
}

func (e *Egress) maps() []*ebpf.Map {
	m := &e.objects.egressMaps
	return []*ebpf.Map{
		m.TbCgroups, m.TbEvents, m.TbFlows, m.TbFrags, m.TbPins, m.TbPolicies, m.TbPorts, m.TbRecent, m.TbReserved, m.TbRules,
		m.TbSlots, m.TbTallies, m.TbVeths,
	}
}

// attachedMaps returns the maps of the connect4 program that an earlier agent left on the control group, by name.
func (e *Egress) attachedMaps() (map[string]*ebpf.Map, error) {
	ids, err := e.attachedPrograms(ebpf.AttachCGroupInet4Connect, "tb_connect4")
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	program, err := ebpf.NewProgramFromID(ids[0])
	if err != nil {
		return nil, fmt.Errorf("open attached program: %w", err)
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, fmt.Errorf("inspect attached program: %w", err)
	}
	out := map[string]*ebpf.Map{}
	mapIDs, _ := info.MapIDs()
	for _, id := range mapIDs {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			closeMaps(out)
			return nil, fmt.Errorf("open attached map: %w", err)
		}
		mapInfo, err := m.Info()
		if err != nil || !strings.HasPrefix(mapInfo.Name, "tb_") || out[mapInfo.Name] != nil {
			m.Close()
			continue
		}
		out[mapInfo.Name] = m
	}
	return out, nil
}

func closeMaps(maps map[string]*ebpf.Map) {
	for _, m := range maps {
		m.Close()
	}
}

// attachedPrograms lists the programs of that name on one of the control group's hooks.
func (e *Egress) attachedPrograms(hook ebpf.AttachType, name string) ([]ebpf.ProgramID, error) {
	return programsAt(int(e.cgroup.Fd()), hook, name)
}

func programsAt(target int, hook ebpf.AttachType, name string) ([]ebpf.ProgramID, error) {
	result, err := link.QueryPrograms(link.QueryOptions{Target: target, Attach: hook})
	if err != nil {
		return nil, fmt.Errorf("query %s programs: %w", hook, err)
	}
	var out []ebpf.ProgramID
	for _, p := range result.Programs {
		program, err := ebpf.NewProgramFromID(p.ID)
		if errors.Is(err, os.ErrNotExist) {
			continue // detached in the meantime
		}
		if err != nil {
			return nil, fmt.Errorf("open program %d: %w", p.ID, err)
		}
		info, err := program.Info()
		program.Close()
		if err != nil {
			return nil, fmt.Errorf("inspect program %d: %w", p.ID, err)
		}
		if info.Name == name {
			out = append(out, p.ID)
		}
	}
	return out, nil
}

// Adopted says whether policies, bindings and counters of an earlier agent were taken over.
func (e *Egress) Adopted() bool { return e.adopted }

// Hook says how packet programs are attached.
func (e *Egress) Hook() Hook { return e.hook }

// Close lets go of the programs and maps. What is attached stays attached and keeps its verdicts.
func (e *Egress) Close() error {
	var errs []error
	if e.events != nil {
		errs = append(errs, e.events.close())
	}
	if e.objects.TbConnect4 != nil {
		errs = append(errs, e.objects.Close())
	}
	if err := e.cgroup.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
