package agent

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/netns/resolver"
)

// Config is everything an operator can set on one node. keys.go lists how each field is called in the file, as a flag and
// in the environment. It is read once, at start.
type Config struct {
	Socket      string // unix socket, always on
	SocketGroup string // group that may use the socket beside root and the agent's own user; empty: none
	State       string // directory of records, spools, uppers and the default bucket
	JailBinary  string // tolbooth-jail; empty: the one beside the agent's own program
	NodeName    string

	Listen      string // TCP address; empty: off
	TLSCert     string
	TLSKey      string
	TLSClientCA string
	Token       string // bearer token of the TCP listener

	LogLevel string
	Version  string // of this build; no key

	Backend   jail.Mode // jail mode of requests that name none
	Explainer string    // of refused system calls: auto, notify, ptrace
	MinGrade  jail.Mode // no job runs with less; empty: minimal, so a request may ask for the weaker mode by name
	Extras    []string  // of the system call policy that requests may ask for
	MaxJobs   int       // running at once
	Queue     int       // waiting beyond that
	Prepared  int       // jails made ahead of time

	Defaults api.Limits
	Max      api.Limits

	MaxBody      api.Quantity
	BodyMemory   api.Quantity // request bodies held at once, all together
	Retain       time.Duration
	RetainJobs   int
	DrainTimeout time.Duration
	Grace        time.Duration // between TERM and KILL of a cancelled job
	StartTimeout time.Duration // of each step of a start

	Audit   AuditConfig
	Network NetworkConfig
	FS      FSConfig

	set map[string]bool // keys that the operator set
}

// AuditConfig is where the record of each run goes.
type AuditConfig struct {
	Path    string       // file; empty: STATE/audit.log
	MaxSize api.Quantity // at which a new file is started
	Keep    int          // older files kept
}

// NetworkConfig is what this node permits jobs.
type NetworkConfig struct {
	Open     bool           // whether jobs may have a network at all
	Pool4    netip.Prefix   // addresses of jails
	Pool6    netip.Prefix   //
	Internal []netip.Prefix // no job reaches these
	Permit   []string       // rules as in network.allow: no request may allow more; none: no such ceiling
	Forward  bool           // turn IP forwarding on in the agent's network namespace when it is off
	DNS      DNSConfig
}

// DNSConfig is how this node looks names up for jobs.
type DNSConfig struct {
	ResolvConf string   // of the node
	Upstreams  []string // ADDRESS or ADDRESS:PORT; none: those of ResolvConf
	Queries    int      // that one job may send out
	Names      int      // distinct ones among them that no rule names in full
}

// FSConfig is where named workspaces are kept.
type FSConfig struct {
	Enabled       bool
	Prefix        string // of keys in the bucket
	Client        string // file
	Bucket        string // directory; empty: STATE/bucket
	SyncInterval  seconds
	RoleARN       string  // scoped credentials: not in this build
	CredentialTTL seconds // validated, used with scoped credentials only
}

// seconds is a duration that may be written as a bare number of seconds, as the platforms' variables are.
type seconds time.Duration

// BucketDir is the directory of the file bucket.
func (c *Config) BucketDir() string {
	if c.FS.Bucket != "" {
		return c.FS.Bucket
	}
	return filepath.Join(c.State, "bucket")
}

// MinimumGrade is the least isolation that any job on this node runs with.
func (c *Config) MinimumGrade() jail.Mode {
	if c.MinGrade != "" {
		return c.MinGrade
	}
	return jail.Minimal
}

// DefaultConfig is what an operator who sets nothing gets.
func DefaultConfig() Config {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	cpus := runtime.NumCPU()
	return Config{
		Socket: "/run/tolbooth/tolbooth.sock", State: "/var/lib/tolbooth", NodeName: name,
		LogLevel: "info", Version: "dev",
		Backend: jail.Syd, Explainer: "auto", MaxJobs: max(2*cpus, 4), Queue: 64, Prepared: min(cpus, 4),
		Defaults: api.Limits{
			// No CPU time limit by default: with one, a job given a longer wall limit would die of a limit that nobody set.
			Wall: api.Duration(time.Minute), CPUs: 1, Memory: 512 << 20, Pids: 128, Disk: 1 << 30, Inodes: 100_000,
			Shm: 64 << 20, Output: 1 << 20, OpenFiles: 1024,
		},
		Max: api.Limits{
			Wall: api.Duration(time.Hour), CPU: api.Duration(time.Duration(cpus) * time.Hour), CPUs: float64(cpus),
			Memory: nodeMemory(), Pids: 4096, Disk: 10 << 30, Inodes: 1_000_000, Shm: 4 << 30, Output: 16 << 20, OpenFiles: 65536,
		},
		MaxBody: 64 << 20, BodyMemory: 512 << 20,
		Retain: time.Hour, RetainJobs: 1000, DrainTimeout: 30 * time.Second, Grace: 2 * time.Second, StartTimeout: time.Minute,
		Audit: AuditConfig{MaxSize: 64 << 20, Keep: 8},
		Network: NetworkConfig{
			Open: true, Forward: true, Pool4: netip.MustParsePrefix("198.19.0.0/16"), Pool6: netip.MustParsePrefix("fd74:6f6c:6c62::/64"),
			DNS: DNSConfig{ResolvConf: "/etc/resolv.conf", Queries: resolver.DefaultBudget().Queries, Names: resolver.DefaultBudget().Names},
		},
		FS: FSConfig{
			Enabled: true, Prefix: "sandboxes", Client: "file",
			SyncInterval: seconds(300 * time.Second), CredentialTTL: seconds(time.Hour),
		},
	}
}

// nodeMemory is the node's memory, the default cap of one job's.
func nodeMemory() api.Quantity {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 4 << 30
	}
	const page = 1 << 20
	return api.Quantity(uint64(info.Totalram) * uint64(info.Unit) / page * page)
}
