package resolver

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// udpSize is the largest datagram we ask for: it passes any path without being cut into fragments.
const udpSize = 1232

// rounds is how often each upstream is asked before a lookup fails.
const rounds = 2

// upstream asks the node's resolvers, in their order.
type upstream struct {
	addrs   func() []netip.AddrPort
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	attempt time.Duration // for one try
	limit   time.Duration // for all
}

var errSpelling = errors.New("the answer does not spell the question as it was asked")

// ask returns the first answer that settles the question.
func (u *upstream) ask(ctx context.Context, name string, qtype uint16) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, u.limit)
	defer cancel()
	addrs := u.addrs()
	if len(addrs) == 0 {
		return nil, errors.New("the node has none")
	}
	var errs []error
	for range rounds {
		for _, addr := range addrs {
			answer, err := u.try(ctx, addr.String(), name, qtype)
			if err == nil {
				return answer, nil
			}
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
			if ctx.Err() != nil {
				return nil, errors.Join(errs...)
			}
		}
	}
	return nil, errors.Join(errs...)
}

// try asks one upstream over UDP, and over TCP when the answer does not fit a datagram or cannot be trusted to be one.
func (u *upstream) try(ctx context.Context, addr, name string, qtype uint16) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, u.attempt)
	defer cancel()
	q, err := question(name, qtype)
	if err != nil {
		return nil, err
	}
	answer, err := u.exchange(ctx, "udp", addr, q)
	if err == nil && answer.Truncated || errors.Is(err, errSpelling) {
		answer, err = u.exchange(ctx, "tcp", addr, q)
	}
	if err != nil {
		return nil, err
	}
	if answer.Truncated {
		return nil, errors.New("an answer over TCP is cut short")
	}
	switch answer.Rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
		return answer, nil
	}
	return nil, fmt.Errorf("answers %s", dns.RcodeToString[answer.Rcode])
}

// question asks for a name spelled at random in upper and lower case (draft-vixie-dnsext-dns0x20) under a random id: an
// answer that was made up without seeing the question must guess both, and the port.
func question(name string, qtype uint16) (*dns.Msg, error) {
	var noise [2 + 256]byte
	if _, err := rand.Read(noise[:]); err != nil {
		return nil, fmt.Errorf("read random bytes: %w", err)
	}
	spelled := []byte(name + ".")
	for i, c := range spelled {
		if 'a' <= c && c <= 'z' && noise[2+i]&1 == 1 {
			spelled[i] = c - 'a' + 'A'
		}
	}
	q := &dns.Msg{
		MsgHdr:   dns.MsgHdr{Id: binary.BigEndian.Uint16(noise[:]), RecursionDesired: true},
		Question: []dns.Question{{Name: string(spelled), Qtype: qtype, Qclass: dns.ClassINET}},
	}
	q.SetEdns0(udpSize, false)
	return q, nil
}

// exchange sends the question from a port of its own and waits for an answer to it. Datagrams that answer something else
// are passed over; they cannot end the wait.
func (u *upstream) exchange(ctx context.Context, network, addr string, q *dns.Msg) (*dns.Msg, error) {
	conn, err := u.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	stream := dns.Conn{Conn: conn, UDPSize: 4096}
	if err := stream.WriteMsg(q); err != nil {
		return nil, err
	}
	for {
		answer, err := stream.ReadMsg()
		if err == nil {
			err = answers(answer, q, network == "tcp")
		}
		if err == nil {
			return answer, nil
		}
		if network == "tcp" || errors.Is(err, errSpelling) || isTransport(err) {
			return nil, err
		}
	}
}

// isTransport tells errors of the socket from those of a message.
func isTransport(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || errors.Is(err, io.EOF)
}

var errOther = errors.New("the answer is to another question")

// answers checks that a message answers the question. Over TCP nobody can answer who does not see the question, so that its
// spelling proves nothing.
func answers(m, q *dns.Msg, anySpelling bool) error {
	if m.Id != q.Id || !m.Response || m.Opcode != dns.OpcodeQuery || len(m.Question) != 1 {
		return errOther
	}
	got, want := m.Question[0], q.Question[0]
	if got.Qtype != want.Qtype || got.Qclass != want.Qclass || !strings.EqualFold(got.Name, want.Name) {
		return errOther
	}
	if got.Name != want.Name && !anySpelling {
		return errSpelling
	}
	return nil
}
