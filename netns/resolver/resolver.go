package resolver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Options of a Resolver.
type Options struct {
	// Upstreams lists the node's resolvers, in the order in which they are asked. It is called for every lookup, so that a node
	// may change them.
	Upstreams func() []netip.AddrPort

	Attempt time.Duration // for one question to one upstream; 0: 1.5 s
	Limit   time.Duration // for a lookup; 0: 4.5 s, less than the 5 s after which programs ask again

	// Reserved tells the addresses that no job may reach.
	Reserved func(netip.Addr) (bool, error)
	// Dial opens the sockets to upstreams; nil: a plain dialer, which is right for a process in the node's namespace.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// maxForwarded bounds the lookups of all jails that wait for an upstream, each of which holds a socket.
const maxForwarded = 512

// Resolver forwards for all jails.
type Resolver struct {
	upstream upstream
	reserved func(netip.Addr) (bool, error)
	room     chan struct{}
	stop     chan struct{}
	done     chan struct{}
	once     sync.Once

	mu    sync.Mutex
	jails map[*Jail]bool // guarded by mu
}

// New makes a Resolver. While there are no upstreams every allowed name fails, and says so.
func New(o Options) (*Resolver, error) {
	if o.Reserved == nil || o.Upstreams == nil {
		return nil, errors.New("make resolver: Upstreams and Reserved are needed")
	}
	if o.Attempt == 0 {
		o.Attempt = 1500 * time.Millisecond
	}
	if o.Limit == 0 {
		o.Limit = 4500 * time.Millisecond
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	r := &Resolver{
		upstream: upstream{addrs: o.Upstreams, dial: o.Dial, attempt: o.Attempt, limit: o.Limit}, reserved: o.Reserved, room: make(chan struct{}, maxForwarded),
		stop: make(chan struct{}), done: make(chan struct{}), jails: map[*Jail]bool{},
	}
	go r.expire()
	return r, nil
}

// Close ends the expiry of pins. Close the Jails first.
func (r *Resolver) Close() {
	r.once.Do(func() { close(r.stop) })
	<-r.done
}

// expire looks after the pins of all jails once a second.
func (r *Resolver) expire() {
	defer close(r.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case now := <-tick.C:
			for _, j := range r.all() {
				j.expire(now)
			}
		}
	}
}

func (r *Resolver) all() []*Jail {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*Jail, 0, len(r.jails))
	for j := range r.jails {
		out = append(out, j)
	}
	return out
}

func (r *Resolver) add(j *Jail) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jails[j] = true
}

func (r *Resolver) remove(j *Jail) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jails, j)
}
