package store

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Mem is a Store in memory, for tests. The zero value is ready.
type Mem struct {
	mu      sync.Mutex
	writes  int64                // guarded by mu
	objects map[string]memObject // guarded by mu
}

type memObject struct {
	data    []byte
	version Version
}

// Get implements Store.
func (m *Mem) Get(_ context.Context, key string, limit int64) ([]byte, Info, error) {
	o, err := m.lookup(key)
	if err != nil {
		return nil, Info{}, fmt.Errorf("get %s: %w", key, err)
	}
	if int64(len(o.data)) > limit {
		return nil, Info{}, fmt.Errorf("get %s: object has %d bytes, more than %d", key, len(o.data), limit)
	}
	return slices.Clone(o.data), Info{Key: key, Size: int64(len(o.data)), Version: o.version}, nil
}

// GetRange implements Store.
func (m *Mem) GetRange(_ context.Context, key string, off, n int64) ([]byte, error) {
	o, err := m.lookup(key)
	if err != nil {
		return nil, fmt.Errorf("get range of %s: %w", key, err)
	}
	if off < 0 || n < 0 || off > int64(len(o.data)) || n > int64(len(o.data))-off {
		return nil, fmt.Errorf("get %s, %d bytes at %d: object ends before", key, n, off)
	}
	return slices.Clone(o.data[off : off+n]), nil
}

// Put implements Store.
func (m *Mem) Put(_ context.Context, key string, data []byte) (Version, error) {
	return m.put(key, data, func(memObject, bool) bool { return true })
}

// PutIfAbsent implements Store.
func (m *Mem) PutIfAbsent(_ context.Context, key string, data []byte) (Version, error) {
	return m.put(key, data, func(_ memObject, exists bool) bool { return !exists })
}

// PutIfMatch implements Store.
func (m *Mem) PutIfMatch(_ context.Context, key string, data []byte, v Version) (Version, error) {
	return m.put(key, data, func(o memObject, exists bool) bool { return exists && o.version == v })
}

func (m *Mem) put(key string, data []byte, allowed func(memObject, bool) bool) (Version, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, exists := m.objects[key]
	if !allowed(old, exists) {
		return "", fmt.Errorf("put %s: %w", key, ErrPrecondition)
	}
	for other := range m.objects {
		if strings.HasPrefix(other, key+"/") || strings.HasPrefix(key, other+"/") {
			return "", fmt.Errorf("put %s: %w: %s exists", key, ErrKey, other)
		}
	}
	if m.objects == nil {
		m.objects = map[string]memObject{}
	}
	m.writes++
	v := Version(fmt.Sprint(m.writes))
	m.objects[key] = memObject{data: slices.Clone(data), version: v}
	return v, nil
}

// Stat implements Store.
func (m *Mem) Stat(_ context.Context, key string) (Info, error) {
	o, err := m.lookup(key)
	if err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return Info{Key: key, Size: int64(len(o.data)), Version: o.version}, nil
}

func (m *Mem) lookup(key string) (memObject, error) {
	if err := CheckKey(key); err != nil {
		return memObject{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return memObject{}, ErrNotFound
	}
	return o, nil
}

// List implements Store.
func (m *Mem) List(_ context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		if err := CheckKey(prefix); err != nil {
			yield(Info{}, err)
			return
		}
		m.mu.Lock()
		objects := maps.Clone(m.objects)
		m.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if strings.HasPrefix(key, prefix+"/") && !yield(Info{Key: key, Size: int64(len(objects[key].data))}, nil) {
				return
			}
		}
	}
}

// Delete implements Store.
func (m *Mem) Delete(_ context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// DeleteIfMatch implements Store.
func (m *Mem) DeleteIfMatch(_ context.Context, key string, v Version) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, ok := m.objects[key]; !ok || o.version != v {
		return fmt.Errorf("delete %s: %w", key, ErrPrecondition)
	}
	delete(m.objects, key)
	return nil
}

// Close implements Store.
func (m *Mem) Close() error { return nil }
