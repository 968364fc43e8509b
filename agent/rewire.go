package agent

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/bpf"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/netns"
)

// live is a running command with its connection: what may be changed from outside.
type live struct {
	running
	plug
}

// putNetwork answers PUT /v1/jobs/{id}/network: the body replaces the job's egress rules whole. When it is answered, the new
// rules hold and no connection is left that they forbid.
func (s *Server) putNetwork(w http.ResponseWriter, r *http.Request) error {
	var req api.Network
	j, err := s.jobAndBody(w, r, &req)
	if err != nil {
		return err
	}
	rules, err := s.rules.network(req, j.meta.Mode)
	if err != nil {
		return err
	}
	if j.meta.Mode == jail.Minimal {
		return refuse(api.ClassUnsupported, "jail", "a job of jail mode minimal has no network of its own whose rules could change").
			hint("run it in jail mode syd")
	}
	cut, err := j.rewire(rules)
	if err != nil {
		return err
	}
	s.log.Info("network changed", keyJob, j.id, "mode", rules.Mode, "rules", len(rules.Allow)+len(rules.Deny), "cut", cut, "peer", peerOf(r.Context()))
	return s.answerJob(w, r, http.StatusOK, j)
}

// rewire replaces a running job's egress rules.
func (j *job) rewire(n network) (cut int, err error) {
	j.mu.Lock()
	state, proc := j.state, j.proc
	j.mu.Unlock()
	if proc == nil {
		return 0, refuse(api.ClassConflict, "", "the job is %s; only a running job's network can change", state)
	}
	cut, err = proc.Rewire(n)
	if errors.Is(err, syscall.ESRCH) {
		return 0, refuse(api.ClassConflict, "", "the job's command has ended")
	}
	return cut, err
}

// Rewire replaces the rules and ends what they forbid; it returns how many connections that were. While it works, what is
// allowed is what the old and the new rules both allow: the packets are judged by the new ones first, the sockets next.
func (x *wire) Rewire(n network) (cut int, err error) {
	x.changing.Lock()
	defer x.changing.Unlock()
	if x.closed {
		return 0, syscall.ESRCH
	}
	id, release, err := x.nets.egress.SetPolicy(n.Policy)
	if err != nil {
		return 0, fmt.Errorf("load the egress policy: %w", err)
	}
	old := x.rules()
	x.setRules(n)
	if err := x.judge(id); err != nil {
		x.setRules(old)
		return 0, errors.Join(err, x.judge(x.policy), release())
	}
	before := x.release
	x.policy, x.release = id, release
	if err := errors.Join(x.renames(n.Names), before()); err != nil {
		return 0, fmt.Errorf("drop the old rules: %w", err)
	}
	if x.link == nil {
		return 0, nil
	}
	if cut, err = x.ns.Cut(x.allows); err != nil {
		return cut, fmt.Errorf("the new rules are in force, but connections that they forbid were not ended and hang: %w", err)
	}
	return cut, nil
}

// judge puts the job under a policy, within the rules' rate and budget: its packets, where it has or now gets a link, and its
// sockets.
func (x *wire) judge(policy uint32) (err error) {
	n := x.rules()
	bind := func(l *netns.Link) error {
		return x.nets.egress.BindVeth(bpf.Veth{
			Ifindex: l.Ifindex, Slot: x.slot, Policy: policy, Pins: x.pinned(), Addr4: l.Addr4, Addr6: l.Addr6, JailMAC: l.JailMAC, NodeMAC: l.NodeMAC,
			Budget: uint64(n.Budget),
		})
	}
	switch {
	case x.link != nil:
		err = bind(x.link)
	case n.Mode != "none" && x.ns != nil:
		x.link, err = x.nets.links.Connect(x.ns, bind)
	}
	if err != nil {
		return err
	}
	job := bpf.Job{Cgroup: x.cgroup, Slot: x.slot, Policy: policy, Pins: x.pinned(), OnNode: x.ns == nil, Budget: uint64(n.Budget)}
	if x.link != nil {
		job.Addr4, job.Addr6 = x.link.Addr4, x.link.Addr6
		if err := x.bound(n.Rate); err != nil {
			return err
		}
	}
	return x.nets.egress.BindCgroup(job)
}

// bound sets the link's rate where it is another than before.
func (x *wire) bound(rate int64) error {
	if rate == x.rate {
		return nil
	}
	if err := x.nets.links.SetRate(x.ns, x.link, rate); err != nil {
		return err
	}
	x.rate = rate
	return nil
}

// rules are those that hold now.
func (x *wire) rules() network {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.network
}

func (x *wire) setRules(n network) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.network = n
}

// spent ends every connection of a job whose byte budget is used up: the kernel lets none of their packets pass any more, so
// their owners would wait in vain.
func (x *wire) spent() {
	x.changing.Lock()
	defer x.changing.Unlock()
	c, err := x.nets.egress.Stats(x.slot)
	budget := x.rules().Budget
	if x.closed || budget == 0 || err != nil || c.Spent < uint64(budget) || x.cut == budget {
		return // it ended, or its budget was raised meanwhile
	}
	x.cut = budget
	if _, err := x.ns.Cut(bpf.Policy{}.Allows); err != nil {
		x.nets.faults.add("network", err)
	}
}
