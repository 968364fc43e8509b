package cowfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/cowfs/store"
)

// Options configure a Manager.
type Options struct {
	StateDir string           // absolute; made with mode 0700 when missing. Required
	Bucket   store.Store      // where named workspaces live; nil: they are refused with ErrUnsupported
	Prefix   string           // key prefix in Bucket; default "sandboxes"
	Node     string           // who flushed, recorded in each snapshot; default the host's name
	NodeRoot string           // whose /usr and /etc the jails see; default "/". Tests give a made-up one
	Now      func() time.Time // default time.Now
}

// Support is what the probe found out. Problem is empty when trees can be made.
type Support struct {
	FSType   string `json:"fs_type"`
	Overlay  bool   `json:"overlay"`
	Volatile bool   `json:"volatile"`
	Prompt   bool   `json:"prompt"` // statfs(2) counts a write when it is made
	Tmpfile  bool   `json:"tmpfile"`
	Xattr    bool   `json:"xattr"`
	DType    bool   `json:"d_type"`
	Problem  string `json:"problem,omitzero"`

	// OwnBase: a jail sees the node's /usr through a file system of its own. SharedBase says why not.
	OwnBase    bool   `json:"own_base"`
	SharedBase string `json:"shared_base,omitzero"`
	// Quota: the file system holds trees to their limits. NoQuota says why not.
	Quota   bool   `json:"quota"`
	NoQuota string `json:"no_quota,omitzero"`
}

// Manager makes and releases the trees of one agent's jobs.
type Manager struct {
	opts    Options
	support Support
	node    *nodeLower

	// Directories of the state, held open so that nothing below them is ever reached by a path.
	run, skel, parked, trash *os.File

	quota *quota // nil: the state file system holds no tree to limits

	empty  *os.File // lower layer of the jails' views of the node
	common *os.File // lower layer of all jails, below the slot's

	sweeper *sweeper

	mu        sync.Mutex
	skeletons map[uint32]*skeleton // by slot; guarded by mu
	leases    map[string]*lease    // by workspace name; guarded by mu
	owned     map[string]bool      // directories below run that are this manager's; guarded by mu
}

var (
	idPattern   = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
)

// Open prepares the state directory, finds out what its file system and this kernel can do, and reads the parts of the
// node that skeletons are made of. It fails when no tree could be made; the error says what is missing. The caller must
// hold the state directory's lock.
func Open(opts Options) (*Manager, error) {
	if !filepath.IsAbs(opts.StateDir) {
		return nil, fmt.Errorf("state directory %s: not an absolute path", quote(opts.StateDir))
	}
	opts.Prefix = orDefault(opts.Prefix, "sandboxes")
	opts.NodeRoot = orDefault(opts.NodeRoot, "/")
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("hostname: %w", err)
		}
		opts.Node = name
	}
	for _, segment := range strings.Split(opts.Prefix, "/") {
		if err := store.CheckSegment(segment); err != nil {
			return nil, fmt.Errorf("key prefix %s: %w", quote(opts.Prefix), err)
		}
	}

	m := &Manager{opts: opts, skeletons: map[uint32]*skeleton{}, leases: map[string]*lease{}, owned: map[string]bool{}}
	if err := m.openState(); err != nil {
		m.closeFiles()
		return nil, err
	}
	m.support = probe(opts.StateDir)
	if m.support.Problem != "" {
		m.closeFiles()
		return nil, fmt.Errorf("%w: %s", ErrUnsupported, m.support.Problem)
	}
	var err error
	if m.node, err = readNode(opts.NodeRoot); err != nil {
		m.closeFiles()
		return nil, fmt.Errorf("read node %s: %w", opts.NodeRoot, err)
	}
	if m.support.Quota {
		m.quota = newQuota(m.run)
	}
	if err := m.openEmpty(); err != nil {
		m.closeFiles()
		return nil, err
	}
	m.sweeper = startSweeper(m.trash)
	if m.common, err = m.buildCommon(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Probe tells what Open would find in stateDir, for doctor. It leaves nothing behind.
func Probe(stateDir string) Support {
	return probe(stateDir)
}

// Support tells what the node can do.
func (m *Manager) Support() Support { return m.support }

// Close ends background removals and releases the state directory. Every Tree must have been released before.
func (m *Manager) Close() error {
	err := m.sweeper.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for slot, s := range m.skeletons {
		err = errors.Join(err, s.dir.Close())
		delete(m.skeletons, slot)
	}
	m.closeFiles()
	return err
}

func (m *Manager) openState() error {
	if err := os.MkdirAll(m.opts.StateDir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	for _, d := range []struct {
		name string
		file **os.File
	}{{"run", &m.run}, {"skel", &m.skel}, {"parked", &m.parked}, {"trash", &m.trash}} {
		path := filepath.Join(m.opts.StateDir, d.name)
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make state directory: %w", err)
		}
		fd, err := unix.Open(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_RDONLY, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		*d.file = os.NewFile(uintptr(fd), path)
	}
	return nil
}

// own notes that a directory below run is in use by this manager, or no more.
func (m *Manager) own(name string, yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if yes {
		m.owned[name] = true
	} else {
		delete(m.owned, name)
	}
}

func (m *Manager) owns(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned[name]
}

func (m *Manager) closeFiles() {
	for _, f := range []*os.File{m.run, m.skel, m.parked, m.trash, m.empty, m.common} {
		if f != nil {
			f.Close()
		}
	}
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
