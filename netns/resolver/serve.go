package resolver

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/tolbooth-dev/tolbooth/netns"
)

func (j *Jail) handler(stream bool) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		reply := j.answer(q)
		reply.Compress = true
		if size := replySize(q, stream); size > 0 {
			reply.Truncate(size)
		}
		// A client that has gone, or a jail that has ended, has nobody left to tell.
		_ = w.WriteMsg(reply)
	}
}

// replySize is what the client takes in one datagram, but no more than passes any path; 0 for a stream.
func replySize(q *dns.Msg, stream bool) int {
	if stream {
		return dns.MaxMsgSize
	}
	if opt := q.IsEdns0(); opt != nil {
		return min(max(int(opt.UDPSize()), dns.MinMsgSize), udpSize)
	}
	return dns.MinMsgSize
}

// answer decides on one question. Precondition: q has exactly one, which the server checked.
func (j *Jail) answer(q *dns.Msg) *dns.Msg {
	reply := new(dns.Msg)
	reply.SetReply(q)
	reply.RecursionAvailable = true
	if opt := q.IsEdns0(); opt != nil {
		reply.SetEdns0(udpSize, false)
		if opt.Version() != 0 {
			reply.Rcode = dns.RcodeBadVers
			return reply
		}
	}
	if q.Opcode != dns.OpcodeQuery {
		reply.Rcode = dns.RcodeNotImplemented
		return reply
	}
	question := q.Question[0]
	// Whatever is no host name is refused: a label with a dot or a zero inside would be split elsewhere than here.
	name, err := netns.CanonicalName(question.Name)
	if question.Qclass != dns.ClassINET || err != nil {
		return j.refuse(reply, Refusal{Name: clip(question.Name), Rule: RuleName})
	}
	if kept, local := locally(name, question.Qtype); local {
		reply.Answer = kept
		return reply
	}
	if r, refused := j.admit(name); refused {
		return j.refuse(reply, r)
	}
	switch question.Qtype {
	case dns.TypeHTTPS, dns.TypeSVCB:
		return reply // they carry addresses and other names past the rules; without them clients ask for addresses
	case dns.TypeANY, dns.TypeAXFR, dns.TypeIXFR, dns.TypeMAILA, dns.TypeMAILB:
		reply.Rcode = dns.RcodeNotImplemented
		return reply
	}
	return j.forward(reply, name)
}

const maxQuotedName = 255

func clip(name string) string {
	if len(name) > maxQuotedName {
		return name[:maxQuotedName] + "…"
	}
	return strings.TrimSuffix(name, ".")
}

// locally answers for localhost, which every resolver keeps to itself (RFC 6761).
func locally(name string, qtype uint16) ([]dns.RR, bool) {
	if name != "localhost" && !strings.HasSuffix(name, ".localhost") {
		return nil, false
	}
	header := dns.RR_Header{Name: dns.Fqdn(name), Rrtype: qtype, Class: dns.ClassINET, Ttl: maxTTL}
	switch qtype {
	case dns.TypeA:
		return []dns.RR{&dns.A{Hdr: header, A: netip.MustParseAddr("127.0.0.1").AsSlice()}}, true
	case dns.TypeAAAA:
		return []dns.RR{&dns.AAAA{Hdr: header, AAAA: netip.MustParseAddr("::1").AsSlice()}}, true
	}
	return nil, true
}

// admit decides whether a name may be asked for, and charges for it.
func (j *Jail) admit(name string) (Refusal, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := j.rules.judge(name)
	if v.refused != "" {
		return Refusal{Name: name, Rule: v.refused}, true
	}
	if rule, limit := j.spent.charge(j.budget, name, v.counted); rule != "" {
		return Refusal{Name: name, Rule: rule, Limit: int64(limit)}, true
	}
	return Refusal{}, false
}

// refuse answers that there is no such name, with the reason for whoever can read it, and reports it.
func (j *Jail) refuse(reply *dns.Msg, r Refusal) *dns.Msg {
	r.Type = dns.TypeToString[reply.Question[0].Qtype]
	if r.Type == "" {
		r.Type = fmt.Sprintf("TYPE%d", reply.Question[0].Qtype)
	}
	r.Count = 1
	reply.Rcode = dns.RcodeNameError
	explain(reply, dns.ExtendedErrorCodeBlocked, r.Text())
	j.report(r)
	return reply
}

// forward asks the upstreams, pins what they answer, and only then answers the job.
func (j *Jail) forward(reply *dns.Msg, name string) *dns.Msg {
	question := reply.Question[0]
	got, err := j.ask(name, question.Qtype)
	if err != nil {
		reply.Rcode = dns.RcodeServerFailure
		explain(reply, dns.ExtendedErrorCodeNoReachableAuthority, "the node's resolvers do not answer: "+err.Error())
		return reply
	}
	var fault error
	f := answerTo(question, got.Answer, func(a netip.Addr) (ok, pin bool) {
		ok, pin, err := j.passes(a)
		fault = errors.Join(fault, err)
		return ok, pin
	})
	if fault != nil {
		return j.fail(reply, fault)
	}
	reply.Rcode = got.Rcode
	reply.Answer = f.records
	for _, rr := range got.Ns {
		if rr.Header().Rrtype == dns.TypeSOA { // how long the absence may be remembered
			reply.Ns = append(reply.Ns, rr)
		}
	}
	if len(f.taken) > 0 {
		r := Refusal{Name: name, Rule: RuleRebinding, Addrs: f.taken}
		if len(f.taken) == len(addressesOf(got.Answer)) {
			reply.Answer = nil
			return j.refuse(reply, r)
		}
		r.Type, r.Count = dns.TypeToString[question.Qtype], 1
		j.report(r)
	}
	if r, err := j.pin(name, f); err != nil {
		return j.fail(reply, err)
	} else if r.Rule != "" {
		reply.Answer = nil
		return j.refuse(reply, r)
	}
	return reply
}

func addressesOf(answer []dns.RR) []netip.Addr {
	var out []netip.Addr
	for _, rr := range answer {
		if a, ok := addressIn(rr); ok {
			out = append(out, a)
		}
	}
	return out
}

// fail is for what is our own fault.
func (j *Jail) fail(reply *dns.Msg, err error) *dns.Msg {
	j.o.Fault(err)
	reply.Answer, reply.Rcode = nil, dns.RcodeServerFailure
	explain(reply, dns.ExtendedErrorCodeOther, "the node's resolver failed")
	return reply
}

func (j *Jail) ask(name string, qtype uint16) (*dns.Msg, error) {
	select {
	case j.resolver.room <- struct{}{}:
		defer func() { <-j.resolver.room }()
	default:
		return nil, errors.New("too many lookups wait for them")
	}
	return j.resolver.upstream.ask(j.ctx, name, qtype)
}

// passes decides on an address of an answer: whether the job may see it, and whether it needs a pin.
func (j *Jail) passes(a netip.Addr) (ok, pin bool, err error) {
	reserved, err := j.resolver.reserved(a)
	if err != nil || reserved {
		return false, false, err
	}
	if isInternal(a) {
		return j.o.OpenByAddress != nil && j.o.OpenByAddress(a), false, nil
	}
	return true, true, nil
}

// pin opens the addresses to the job. The rules are asked again: they may have changed while the upstreams were asked.
func (j *Jail) pin(name string, f found) (Refusal, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := j.rules.judge(name)
	if v.refused != "" {
		return Refusal{Name: name, Rule: v.refused}, nil
	}
	if j.rules.open {
		return Refusal{}, nil
	}
	if !j.pins.fits(f.addrs) {
		return Refusal{Name: name, Rule: RulePins, Limit: int64(j.pins.most)}, nil
	}
	ttl := max(time.Duration(f.ttl)*time.Second, MinPin)
	return Refusal{}, j.pins.add(name, f.addrs, grant{ports: v.ports, until: time.Now().Add(ttl)})
}
