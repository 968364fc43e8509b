package agent

import (
	"sync"
	"time"
)

// faults remembers what went wrong inside the agent itself, by the step it happened in, so that health and metrics show
// it. A fault fades from health when its step has worked for a while.
type faults struct {
	mu    sync.Mutex
	last  map[string]fault
	total map[string]int64
}

type fault struct {
	Step string
	Err  error
	At   time.Time
}

// faultShown is how long a fault stays a health problem after it was last seen.
const faultShown = 10 * time.Minute

func (f *faults) add(step string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last, f.total = map[string]fault{}, map[string]int64{}
	}
	f.last[step] = fault{Step: step, Err: err, At: time.Now()}
	f.total[step]++
}

// recent lists the faults that are still worth showing.
func (f *faults) recent() []fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []fault
	for _, v := range f.last {
		if time.Since(v.At) < faultShown {
			out = append(out, v)
		}
	}
	return out
}

// counts returns how often each step failed since the start.
func (f *faults) counts() map[string]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]int64, len(f.total))
	for k, v := range f.total {
		out[k] = v
	}
	return out
}
