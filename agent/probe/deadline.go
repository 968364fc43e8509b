package probe

import (
	"fmt"
	"time"
)

// patience is how long the kernel may take for one probe. Each takes milliseconds, those that load programs some hundred.
const patience = 10 * time.Second

// unansweredFix is what to do about a layer whose probe never came back.
const unansweredFix = "nothing can end a call that blocks in the kernel, nor the process that made it: the kernel's log names the blocked tasks (dmesg); when they do not come back, boot the node anew"

// within runs a probe, and leaves its goroutine and thread behind when it does not come back: no one can end a system call
// that blocks for good in the kernel, and who asks for a report must get one.
func within[T any](most time.Duration, probe func() T) (result T, ok bool) {
	done := make(chan T, 1)
	go func() { done <- probe() }()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case result = <-done:
		return result, true
	case <-timer.C:
		return result, false
	}
}

// ask tries one layer or more, which are missing when the kernel does not answer.
func ask(most time.Duration, probe func() []Layer, names ...string) []Layer {
	layers, ok := within(most, probe)
	if ok {
		return layers
	}
	for _, name := range names {
		layers = append(layers, unanswered(name, most))
	}
	return layers
}

// one tries one layer.
func one(name string, probe func() Layer) Layer {
	return ask(patience, func() []Layer { return []Layer{probe()} }, name)[0]
}

func unanswered(name string, most time.Duration) Layer {
	return Layer{Name: name, Why: fmt.Sprintf("the kernel did not answer within %s", most), Fix: unansweredFix, hung: true}
}
