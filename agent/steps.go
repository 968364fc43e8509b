package agent

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
)

// hangs is how long a step is under way when health says that it hangs. Each takes milliseconds.
const hangs = 10 * time.Second

// steps knows which steps are under way that go into the kernel, so that one which hangs there is seen. It is usable when
// zero.
type steps struct {
	mu   sync.Mutex
	open map[*step]bool
	good map[string]time.Time // when the latest step of that name began that came back well
	left int64                // steps that were left behind, since the start
}

// step is one that is under way.
type step struct {
	name    string
	job     string // empty: none
	since   time.Time
	patient time.Duration // it hangs when it takes longer
	start   bool          // no job runs without one like it
	left    bool          // nobody waits for it any more
}

// begin notes a step that a start needs.
func (s *steps) begin(name, job string) *step {
	return s.add(&step{name: name, job: job, patient: hangs, start: true})
}

// add notes a step of any kind.
func (s *steps) add(st *step) *step {
	st.since = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open, s.good = map[*step]bool{}, map[string]time.Time{}
	}
	s.open[st] = true
	return st
}

// leave notes that nobody waits for a step any more.
func (s *steps) leave(st *step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.left = true
	s.left++
}

// end forgets a step that came back, well or not.
func (s *steps) end(st *step, well bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, st)
	if well && st.since.After(s.good[st.name]) {
		s.good[st.name] = st.since
	}
}

// hanging are the steps that have been under way for too long, the oldest first.
func (s *steps) hanging() []step {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []step
	for st := range s.open {
		if st.left || time.Since(st.since) > st.patient {
			list = append(list, *st)
		}
	}
	slices.SortFunc(list, func(a, b step) int { return a.since.Compare(b.since) })
	return list
}

// blocked reports whether a step hangs that every job needs, and none like it has been taken since.
func (s *steps) blocked(hanging []step) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(hanging, func(st step) bool { return st.start && !s.good[st.name].After(st.since) })
}

// addTo adds what hangs, a problem for each name.
func (s *steps) addTo(r *report) {
	hanging := s.hanging()
	byName := map[string][]step{}
	var names []string // the one that hangs longest first
	for _, st := range hanging {
		if byName[st.name] == nil {
			names = append(names, st.name)
		}
		byName[st.name] = append(byName[st.name], st)
	}
	for _, name := range names {
		r.Problems = append(r.Problems, problemOf(byName[name]))
	}
	r.Blocked = s.blocked(hanging)
	r.Figures.Hanging = len(hanging)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Figures.LeftBehind = s.left
}

// problemOf words steps of one name, the oldest first.
func problemOf(alike []step) api.NodeProblem {
	var jobs []string
	for _, st := range alike {
		if st.job != "" && len(jobs) < 4 {
			jobs = append(jobs, st.job)
		}
	}
	of := ""
	if len(jobs) > 0 {
		of = ", of job " + strings.Join(jobs, ", ")
	}
	return api.NodeProblem{
		What: fmt.Sprintf("the node's kernel does not answer: the step %q hangs", alike[0].name),
		Why:  fmt.Sprintf("%d of them hang, the oldest since %s%s; each keeps what it holds", len(alike), alike[0].since.UTC().Format(time.RFC3339), of),
		Fix:  "nothing can end a step that blocks in the kernel. The kernel's log names the blocked tasks (dmesg); when they do not come back, move the jobs elsewhere and boot the node anew",
	}
}
