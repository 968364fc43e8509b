package resolver

import (
	"strings"
	"time"
)

const (
	// maxTold bounds how many distinct refusals of one job are told one by one.
	maxTold = 100
	// patience is how long a name that a search domain may have made up waits for the name without it.
	patience = time.Second
)

// told is what was told of a job's refusals. The Jail's lock guards it.
type told struct {
	seen    map[toldKey]string // the type that each name was first asked for, of the address types A
	waiting []waiting
}

type toldKey struct{ rule, name string }

// waiting is a refusal of a name with a search domain.
type waiting struct {
	refusal Refusal
	stem    string
	since   time.Time
}

// fold makes refusals that mean one attempt look alike (programs ask for each address family), and replaces those that are
// too many to tell by a nameless sum.
func (t *told) fold(r Refusal) Refusal {
	key := toldKey{r.Rule, r.Name}
	first, ok := t.seen[key]
	if !ok && len(t.seen) >= maxTold {
		return Refusal{Rule: r.Rule, Count: r.Count, Limit: r.Limit}
	}
	if !ok {
		first = r.Type
		if first == "AAAA" { // the two are asked for at once, and either may come first
			first = "A"
		}
		t.seen[key] = first
	}
	r.Type = first
	return r
}

// report tells of a refusal. A program that looks up evil.test on a node with search domain corp.test asks for
// evil.test.corp.test as well, before or after: that is one attempt, at evil.test, and none at all when the rules allow it.
func (j *Jail) report(r Refusal) {
	j.mu.Lock()
	list := j.told.settle(r, j.o.Search, j.rules)
	j.mu.Unlock()
	for _, r := range list {
		j.o.Refused(r)
	}
}

// settle returns what is to be told now.
func (t *told) settle(r Refusal, search []string, rules *table) []Refusal {
	stem := ""
	if r.Rule == RuleName || r.Rule == RuleNone {
		stem = withoutSearch(r.Name, search)
	}
	if stem == "" {
		for i := 0; i < len(t.waiting); i++ {
			if w := t.waiting[i]; w.stem == r.Name {
				r.Count += w.refusal.Count
				t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
				i--
			}
		}
		return []Refusal{t.fold(r)}
	}
	rule := rules.judge(stem).refused
	if rule == "" {
		return nil
	}
	if _, ok := t.seen[toldKey{rule, stem}]; ok {
		r.Name, r.Rule = stem, rule
		return []Refusal{t.fold(r)}
	}
	if len(t.waiting) >= maxTold {
		return []Refusal{t.fold(r)}
	}
	t.waiting = append(t.waiting, waiting{r, stem, time.Now()})
	return nil
}

// withoutSearch takes a search domain off a name that has dots without it too; empty: it has none.
func withoutSearch(name string, search []string) string {
	for _, s := range search {
		stem, ok := strings.CutSuffix(name, "."+strings.TrimSuffix(strings.ToLower(s), "."))
		if ok && strings.Contains(stem, ".") {
			return stem
		}
	}
	return ""
}

// Flush tells of every refusal that was put off to see whether it is one of its own. Call it when the job has ended.
func (j *Jail) Flush() { j.flush(time.Now()) }

func (j *Jail) flush(before time.Time) {
	j.mu.Lock()
	var list []Refusal
	for len(j.told.waiting) > 0 && !j.told.waiting[0].since.After(before) {
		list = append(list, j.told.fold(j.told.waiting[0].refusal))
		j.told.waiting = j.told.waiting[1:]
	}
	j.mu.Unlock()
	for _, r := range list {
		j.o.Refused(r)
	}
}
