package resolver

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"
)

// The rules that a lookup can fail by.
const (
	RuleName      = "network.dns"           // no rule allows the name
	RuleDeny      = "network.deny"          // a deny rule names it
	RuleNone      = "network.none"          // the job has no network
	RuleRebinding = "network.rebinding"     // its addresses are internal ones
	RuleQueries   = "network.dns_queries"   // the job's budget of lookups is used up
	RuleNames     = "network.dns_names"     // the job's budget of distinct names is used up
	RulePins      = "network.dns_addresses" // the job's budget of addresses is used up
)

// Refusal is a lookup that was refused, or of which addresses were taken out.
type Refusal struct {
	Name  string // empty: several names beyond those that are told one by one
	Type  string // A, also for AAAA; MX, TXT, …
	Rule  string
	Addrs []netip.Addr // taken out, under RuleRebinding
	Count int64
	Limit int64 // of the budget that is used up
}

// Text says what happened and what to ask for, for people and models.
func (r Refusal) Text() string {
	switch r.Rule {
	case RuleNone:
		return fmt.Sprintf("blocked by policy: this job has no network (rule %s). Do not retry; ask for network.mode allow with %q in network.allow", r.Rule, r.Name+":443")
	case RuleDeny:
		return fmt.Sprintf("blocked by policy: a rule of network.deny names %s. Do not retry; ask for that rule to be removed", r.Name)
	case RuleRebinding:
		return fmt.Sprintf("blocked by policy: %s has internal addresses only (rule %s). Do not retry; a rule by address in network.allow may open them", r.Name, r.Rule)
	case RuleQueries, RuleNames, RulePins:
		return fmt.Sprintf("blocked by policy: this job's budget of %d is used up (rule %s). Do not retry", r.Limit, r.Rule)
	}
	return fmt.Sprintf("blocked by policy: %s is not in network.allow (rule %s). Do not retry; ask for %q in network.allow", r.Name, r.Rule, r.Name+":443")
}

// maxExtraText bounds the extended error: with a question of 255 bytes it must fit an answer of 512.
const maxExtraText = 220

// explain adds the extended error, for whoever asked by EDNS.
func explain(reply *dns.Msg, code uint16, text string) {
	opt := reply.IsEdns0()
	if opt == nil {
		return
	}
	if len(text) > maxExtraText {
		text = text[:maxExtraText]
	}
	opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: code, ExtraText: text})
}
