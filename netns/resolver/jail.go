package resolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"

	"github.com/tolbooth-dev/tolbooth/bpf"
)

// JailOptions are what one jail may ask, and who hears of it.
type JailOptions struct {
	UDP net.PacketConn // the Jail closes both
	TCP net.Listener

	Rules  Rules
	Budget Budget   // zero: DefaultBudget
	Search []string // of the jail's resolv.conf: names that programs made with it are told as what they began with
	Pins   Pins

	// OpenByAddress tells whether the rules by address open an address: an internal one may then be the answer to a name.
	OpenByAddress func(netip.Addr) bool

	Refused func(Refusal) // each refused lookup, soon after its answer
	Fault   func(error)   // what keeps a pin from being made or removed, and a server from running
}

// How fast a jail's questions are read. What comes faster waits in its sockets and is lost there, at its own cost.
const (
	perSecond = 500
	burst     = 1000
	streams   = 32 // TCP connections at once
)

// Jail answers one jail. Close it.
type Jail struct {
	resolver *Resolver
	o        JailOptions
	budget   Budget
	pace     *rate.Limiter
	servers  []*dns.Server
	running  sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc

	mu    sync.Mutex
	rules *table   // guarded by mu
	pins  pinTable // guarded by mu
	spent spent    // guarded by mu
	told  told     // guarded by mu
}

// Serve answers on the jail's sockets until Close.
func (r *Resolver) Serve(o JailOptions) (*Jail, error) {
	if o.UDP == nil || o.TCP == nil || o.Refused == nil || o.Fault == nil || o.Pins == nil {
		return nil, errors.New("serve names to a jail: sockets, Pins, Refused and Fault are needed")
	}
	j := &Jail{
		resolver: r, o: o, budget: o.Budget, pace: rate.NewLimiter(perSecond, burst),
		rules: newTable(o.Rules), told: told{seen: map[toldKey]string{}},
		pins: pinTable{kernel: o.Pins, held: map[netip.Addr]map[string]grant{}},
	}
	if j.budget == (Budget{}) {
		j.budget = DefaultBudget()
	}
	j.pins.most = j.budget.Addresses
	j.ctx, j.cancel = context.WithCancel(context.Background())
	for _, s := range []*dns.Server{
		{PacketConn: o.UDP, Handler: j.handler(false)},
		{Listener: netutil.LimitListener(o.TCP, streams), Handler: j.handler(true)},
	} {
		if err := j.start(s); err != nil {
			return nil, errors.Join(fmt.Errorf("serve names to a jail: %w", err), j.Close())
		}
	}
	r.add(j)
	return j, nil
}

// start returns once the server runs, since only then can it be shut down.
func (j *Jail) start(s *dns.Server) error {
	started, ended := make(chan struct{}), make(chan error, 1)
	s.NotifyStartedFunc = func() { close(started) }
	s.DecorateReader = func(r dns.Reader) dns.Reader { return pacedReader{r, j} }
	s.MsgInvalidFunc = func([]byte, error) {} // no question, no answer
	s.ReadTimeout, s.WriteTimeout = 10*time.Second, 5*time.Second
	j.running.Go(func() {
		err := s.ActivateAndServe()
		ended <- err
		select {
		case <-started:
			if err != nil && j.ctx.Err() == nil {
				j.o.Fault(fmt.Errorf("serve names to a jail: %w", err))
			}
		default:
		}
	})
	select {
	case <-started:
		j.servers = append(j.servers, s)
		return nil
	case err := <-ended:
		return err
	}
}

// pacedReader slows the reading of questions.
type pacedReader struct {
	dns.Reader
	jail *Jail
}

func (p pacedReader) ReadUDP(c *net.UDPConn, timeout time.Duration) ([]byte, *dns.SessionUDP, error) {
	if err := p.jail.pace.Wait(p.jail.ctx); err != nil {
		return nil, nil, err
	}
	return p.Reader.ReadUDP(c, timeout)
}

func (p pacedReader) ReadTCP(c net.Conn, timeout time.Duration) ([]byte, error) {
	if err := p.jail.pace.Wait(p.jail.ctx); err != nil {
		return nil, err
	}
	return p.Reader.ReadTCP(c, timeout)
}

// SetRules replaces the rules at once. Addresses that the new ones do not open are unpinned, in use or not.
func (j *Jail) SetRules(r Rules) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rules = newTable(r)
	return j.pins.rejudge(j.rules)
}

// Allows reports whether a pin opens a port of an address.
func (j *Jail) Allows(a netip.Addr, port uint16, protocol bpf.Protocols) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pins.allows(a, port, protocol)
}

// Names are the names that an address is pinned for.
func (j *Jail) Names(a netip.Addr) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pins.names(a)
}

// Lapsed tells which pin of an address lapsed last, if one is remembered.
func (j *Jail) Lapsed(a netip.Addr) (Lapse, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.pins.lapsed) - 1; i >= 0; i-- {
		if j.pins.lapsed[i].Addr == a {
			return j.pins.lapsed[i], true
		}
	}
	return Lapse{}, false
}

func (j *Jail) expire(now time.Time) {
	j.mu.Lock()
	err := j.pins.expire(now)
	j.mu.Unlock()
	j.flush(now.Add(-patience))
	if err != nil {
		j.o.Fault(err)
	}
}

// Close stops answering, closes the sockets and removes the pins. Afterwards nothing of the jail is left here.
func (j *Jail) Close() error {
	j.resolver.remove(j)
	j.cancel()
	var errs []error
	for _, s := range j.servers {
		errs = append(errs, s.ShutdownContext(context.Background()))
	}
	for _, c := range []interface{ Close() error }{j.o.UDP, j.o.TCP} {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	j.running.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(append(errs, j.pins.clear())...)
}
