package storetest

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

// ErrInjected is the failure that Faulty makes.
var ErrInjected = errors.New("injected storage failure")

// Faulty fails the call number FailAt (from 1; 0: none) to the store beneath it.
type Faulty struct {
	store.Store
	FailAt int64
	// Late lets the call do its work and reports a failure all the same, as a time-out after the write does.
	Late  bool
	calls atomic.Int64
}

// Calls is how many calls there were.
func (f *Faulty) Calls() int64 { return f.calls.Load() }

// Reset starts counting anew.
func (f *Faulty) Reset(failAt int64) {
	f.calls.Store(0)
	f.FailAt = failAt
}

// fault counts a call. It returns the error to give up with before the work, and the one to report after it.
func (f *Faulty) fault() (before, after error) {
	if f.calls.Add(1) != f.FailAt {
		return nil, nil
	}
	if f.Late {
		return nil, ErrInjected
	}
	return ErrInjected, nil
}

// Get implements store.Store.
func (f *Faulty) Get(ctx context.Context, key string, limit int64) ([]byte, store.Info, error) {
	before, after := f.fault()
	if before != nil {
		return nil, store.Info{}, before
	}
	data, info, err := f.Store.Get(ctx, key, limit)
	return data, info, errors.Join(err, after)
}

// GetRange implements store.Store.
func (f *Faulty) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	before, after := f.fault()
	if before != nil {
		return nil, before
	}
	data, err := f.Store.GetRange(ctx, key, off, n)
	return data, errors.Join(err, after)
}

// Put implements store.Store.
func (f *Faulty) Put(ctx context.Context, key string, data []byte) (store.Version, error) {
	before, after := f.fault()
	if before != nil {
		return "", before
	}
	v, err := f.Store.Put(ctx, key, data)
	return v, errors.Join(err, after)
}

// PutIfAbsent implements store.Store.
func (f *Faulty) PutIfAbsent(ctx context.Context, key string, data []byte) (store.Version, error) {
	before, after := f.fault()
	if before != nil {
		return "", before
	}
	v, err := f.Store.PutIfAbsent(ctx, key, data)
	return v, errors.Join(err, after)
}

// PutIfMatch implements store.Store.
func (f *Faulty) PutIfMatch(ctx context.Context, key string, data []byte, version store.Version) (store.Version, error) {
	before, after := f.fault()
	if before != nil {
		return "", before
	}
	v, err := f.Store.PutIfMatch(ctx, key, data, version)
	return v, errors.Join(err, after)
}

// Stat implements store.Store.
func (f *Faulty) Stat(ctx context.Context, key string) (store.Info, error) {
	before, after := f.fault()
	if before != nil {
		return store.Info{}, before
	}
	info, err := f.Store.Stat(ctx, key)
	return info, errors.Join(err, after)
}

// List implements store.Store.
func (f *Faulty) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	before, after := f.fault()
	return func(yield func(store.Info, error) bool) {
		if before != nil {
			yield(store.Info{}, before)
			return
		}
		for info, err := range f.Store.List(ctx, prefix) {
			if !yield(info, err) {
				return
			}
		}
		if after != nil {
			yield(store.Info{}, after)
		}
	}
}

// Delete implements store.Store.
func (f *Faulty) Delete(ctx context.Context, key string) error {
	before, after := f.fault()
	if before != nil {
		return before
	}
	return errors.Join(f.Store.Delete(ctx, key), after)
}

// DeleteIfMatch implements store.Store.
func (f *Faulty) DeleteIfMatch(ctx context.Context, key string, v store.Version) error {
	before, after := f.fault()
	if before != nil {
		return before
	}
	return errors.Join(f.Store.DeleteIfMatch(ctx, key, v), after)
}
