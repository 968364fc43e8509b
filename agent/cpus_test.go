package agent

import (
	"fmt"
	"testing"
)

func TestCPUSpread(t *testing.T) {
	c := newCPUSpread([]int{2, 3, 5})
	var give []func()
	take := func(limit float64, want ...int) {
		t.Helper()
		got, g := c.take(limit)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v CPUs: %v, want %v", limit, got, want)
		}
		give = append(give, g)
	}
	take(0.1, 2)
	take(1, 3)
	take(1.5, 2, 5)   // 2 has 0.1, 5 has none
	take(1, 5)        // 2: 0.85, 3: 1, 5: 0.75
	take(64, 2, 3, 5) // never more than there are
	for _, g := range give {
		g()
	}
	for cpu, load := range c.load {
		if load != 0 {
			t.Errorf("CPU %d still has a load of %d", cpu, load)
		}
	}
	take(1, 2)
	give[len(give)-1]()
	take(1, 2)
}

func TestThreadDefaults(t *testing.T) {
	for _, c := range []struct {
		cpus          float64
		usable        int
		compute, pool string
	}{{0.01, 2, "1", "4"}, {1, 8, "1", "4"}, {1.5, 8, "2", "4"}, {6, 8, "6", "6"}, {6, 2, "2", "4"}} {
		env := defaultEnv(cpuCount(c.cpus, c.usable))
		for _, name := range computeThreads {
			if env[name] != c.compute {
				t.Errorf("%v CPUs of %d: %s=%s, want %s", c.cpus, c.usable, name, env[name], c.compute)
			}
		}
		if env["UV_THREADPOOL_SIZE"] != c.pool {
			t.Errorf("%v CPUs of %d: UV_THREADPOOL_SIZE=%s, want %s", c.cpus, c.usable, env["UV_THREADPOOL_SIZE"], c.pool)
		}
	}
}
