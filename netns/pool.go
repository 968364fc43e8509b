package netns

import (
	"context"
	"errors"
	"sync"
	"time"
)

// refillPause is how long a pool waits after it failed to make a namespace.
const refillPause = time.Second

// Pool keeps namespaces ready, so that a job does not wait for one to be made.
type Pool struct {
	ready chan *Namespace
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once
}

// NewPool fills itself with size namespaces in the background.
func NewPool(size int) *Pool {
	// The refiller holds one more in its hand, waiting for room.
	p := &Pool{ready: make(chan *Namespace, max(size-1, 0)), stop: make(chan struct{}), done: make(chan struct{})}
	if size <= 0 {
		close(p.done)
		return p
	}
	go p.refill()
	return p
}

func (p *Pool) refill() {
	defer close(p.done)
	for {
		ns, err := New()
		if err != nil {
			// Take makes its own when the pool is empty, and reports this error to whoever needs it.
			select {
			case <-time.After(refillPause):
				continue
			case <-p.stop:
				return
			}
		}
		select {
		case p.ready <- ns:
		case <-p.stop:
			ns.Close()
			return
		}
	}
}

// Take returns a namespace that nobody else has, made on the spot when none is ready. The caller closes it.
func (p *Pool) Take(ctx context.Context) (*Namespace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-p.stop:
		return nil, errors.New("take network namespace: the pool is closed")
	case ns := <-p.ready:
		return ns, nil
	default:
		return New()
	}
}

// Ready is how many are waiting.
func (p *Pool) Ready() int { return len(p.ready) }

// Close closes those that are waiting.
func (p *Pool) Close() error {
	var errs []error
	p.once.Do(func() {
		close(p.stop)
		<-p.done
		for {
			select {
			case ns := <-p.ready:
				errs = append(errs, ns.Close())
				continue
			default:
			}
			return
		}
	})
	return errors.Join(errs...)
}
