package agent

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
	"github.com/tolbooth-dev/tolbooth/jail/policy"
)

// minToken is the least length of the TCP listener's token.
const minToken = 32

// maxSocketPath is what fits into a unix address, its final NUL included (unix(7)).
const maxSocketPath = 107

// check refuses settings that contradict each other or that this build cannot honour.
func (c *Config) check() error {
	named := map[string]key{}
	for _, k := range keys() {
		named[k.name] = k
	}
	wrong := func(name, format string, args ...any) error {
		return named[name].wrong(fmt.Errorf(format, args...))
	}
	switch {
	case !filepath.IsAbs(c.Socket) || len(c.Socket) > maxSocketPath:
		return wrong("socket", "%.128q is not an absolute path of at most %d bytes", c.Socket, maxSocketPath)
	case !filepath.IsAbs(c.State):
		return wrong("state", "%.128q is not an absolute path", c.State)
	case c.MaxJobs < 1 || c.MaxJobs > maxMaxJobs:
		return wrong("max_jobs", "%d is not between 1 and %d", c.MaxJobs, maxMaxJobs)
	case c.Queue < 0 || c.Queue > maxQueue:
		return wrong("queue", "%d is not between 0 and %d", c.Queue, maxQueue)
	case c.Prepared < 0 || c.Prepared > c.MaxJobs:
		if !c.set["prepared"] {
			c.Prepared = c.MaxJobs
			return c.check()
		}
		return wrong("prepared", "%d is not between 0 and max_jobs (%d)", c.Prepared, c.MaxJobs)
	case c.MaxBody < 1<<10:
		return wrong("max_body", "%s is less than 1Ki", c.MaxBody)
	case c.BodyMemory < c.MaxBody:
		return wrong("body_memory", "%s is less than max_body (%s)", c.BodyMemory, c.MaxBody)
	case c.RetainJobs < 1:
		return wrong("retain_jobs", "%d is less than 1", c.RetainJobs)
	case c.Retain < time.Second:
		return wrong("retain", "%s is less than 1s", c.Retain)
	case c.StartTimeout < minStart || c.StartTimeout > maxStart:
		return wrong("start_timeout", "%s is not between %s and %s", c.StartTimeout, minStart, maxStart)
	case c.Audit.Path != "" && !filepath.IsAbs(c.Audit.Path):
		return wrong("audit.path", "%.128q is not an absolute path", c.Audit.Path)
	case c.Audit.MaxSize < 1<<20:
		return wrong("audit.max_size", "%s is less than 1Mi", c.Audit.MaxSize)
	case c.Audit.Keep < 0 || c.Audit.Keep > 1000:
		return wrong("audit.keep", "%d is not between 0 and 1000", c.Audit.Keep)
	case strength(c.MinGrade) > strength(c.Backend):
		return wrong("min_grade", "%q is more than backend %q gives, so no job could run", c.MinGrade, c.Backend)
	case c.badPermit() != nil:
		return wrong("network.permit", "%s", c.badPermit())
	case c.unknownExtra() != "":
		return wrong("extras", "%.64q is not one of: ptrace, io_uring, raw_socket, userns", c.unknownExtra())
	case !c.Network.Pool4.Addr().Is4() || c.Network.Pool4.Bits() > maxPool4Bits || c.Network.Pool4 != c.Network.Pool4.Masked():
		return wrong("network.pool4", "%s is not an IPv4 range of at least a /%d, such as 198.19.0.0/16", c.Network.Pool4, maxPool4Bits)
	case !c.Network.Pool6.Addr().Is6() || c.Network.Pool6.Addr().Is4In6() || c.Network.Pool6.Bits() > maxPool6Bits || c.Network.Pool6 != c.Network.Pool6.Masked():
		return wrong("network.pool6", "%s is not an IPv6 range of at least a /%d, such as fd74:6f6c:6c62::/64", c.Network.Pool6, maxPool6Bits)
	case !filepath.IsAbs(c.Network.DNS.ResolvConf):
		return wrong("network.resolv_conf", "%.128q is not an absolute path", c.Network.DNS.ResolvConf)
	case c.Network.DNS.Queries < 1 || c.Network.DNS.Queries > maxLookups:
		return wrong("network.dns_queries", "%d is not between 1 and %d", c.Network.DNS.Queries, maxLookups)
	case c.Network.DNS.Names < 1 || c.Network.DNS.Names > maxLookups:
		return wrong("network.dns_names", "%d is not between 1 and %d", c.Network.DNS.Names, maxLookups)
	case c.FS.Client != "file":
		return wrong("filesystem.client", "%q is not supported by this build; supported: file", c.FS.Client)
	case c.FS.Bucket != "" && !filepath.IsAbs(c.FS.Bucket):
		return wrong("filesystem.bucket", "%.128q is not an absolute directory, which kind file needs", c.FS.Bucket)
	case c.FS.Prefix != "" && !filepath.IsLocal(c.FS.Prefix):
		return wrong("filesystem.prefix", "%.128q is not a plain relative key", c.FS.Prefix)
	case c.FS.RoleARN != "":
		return wrong("filesystem.sts_role_arn", "scoped storage credentials are not supported by this build; leave it unset")
	case c.FS.CredentialTTL < seconds(900*time.Second) || c.FS.CredentialTTL > seconds(43200*time.Second):
		return wrong("filesystem.credential_ttl", "%s seconds is not between 900 and 43200", textOf(&c.FS.CredentialTTL))
	case c.FS.SyncInterval < seconds(time.Second):
		return wrong("filesystem.sync_interval", "%s seconds is less than 1", textOf(&c.FS.SyncInterval))
	}
	if _, err := parseUpstreams(c.Network.DNS.Upstreams); err != nil {
		return wrong("network.dns_upstreams", "%w", err)
	}
	if err := c.checkListener(wrong); err != nil {
		return err
	}
	return c.checkLimits(wrong)
}

// The longest prefixes that package netns takes: 16 bits of a pool are its own to number links with.
const maxPool4Bits, maxPool6Bits = 16, 64

// Bounds of start_timeout: a node that is busy needs seconds for a start, and one that is well does not need minutes.
const minStart, maxStart = 5 * time.Second, 10 * time.Minute

// Bounds of what one agent can be asked to hold.
const (
	maxMaxJobs = 1024
	maxQueue   = 10_000
	maxLookups = 1_000_000
)

func (c *Config) badPermit() error {
	_, err := newCeiling(c.Network.Permit)
	return err
}

// unknownExtra is the first extra that no policy has.
func (c *Config) unknownExtra() string {
	for _, name := range c.Extras {
		if !slices.ContainsFunc(policy.Extras(), func(x policy.Named) bool { return x.Name == name }) {
			return name
		}
	}
	return ""
}

func (c *Config) checkListener(wrong func(string, string, ...any) error) error {
	switch {
	case c.Token != "" && len(c.Token) < minToken:
		return wrong("token", "has %d characters; at least %d are needed", len(c.Token), minToken)
	case c.Listen != "":
	case c.TLSCert != "":
		return wrong("tls_cert", "has no effect without listen")
	case c.TLSKey != "":
		return wrong("tls_key", "has no effect without listen")
	case c.TLSClientCA != "":
		return wrong("tls_client_ca", "has no effect without listen")
	default:
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return wrong("listen", "%.128q is not an address such as :8000 or 127.0.0.1:8000", c.Listen)
	}
	switch {
	case c.Token == "":
		return wrong("token", "the TCP listener (listen = %s) needs a token of at least %d characters; without one, only the unix socket can be served", c.Listen, minToken)
	case strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return wrong("token", "has characters that an HTTP header cannot carry (blanks, control characters, non-ASCII)")
	case c.TLSCert == "" && c.TLSKey != "":
		return wrong("tls_cert", "is needed with tls_key")
	case c.TLSKey == "" && c.TLSCert != "":
		return wrong("tls_key", "is needed with tls_cert")
	case c.TLSClientCA != "" && c.TLSCert == "":
		return wrong("tls_client_ca", "needs tls_cert and tls_key")
	}
	return nil
}

// checkLimits refuses limits that are none, and defaults over the cap when both were chosen.
func (c *Config) checkLimits(wrong func(string, string, ...any) error) error {
	for _, l := range limitFields() {
		most, usual := l.value(&c.Max), l.value(&c.Defaults)
		if most <= 0 {
			return wrong("limits.max."+l.name, "must be more than zero")
		}
		if l.name == "memory" && most < minMemory {
			return wrong("limits.max.memory", "%s is less than %s, which no program starts with", c.Max.Memory, api.Quantity(minMemory))
		}
		if usual < 0 || usual == 0 && l.name != "cpu" {
			return wrong("limits.defaults."+l.name, "must be more than zero")
		}
		if usual > most && c.set["limits.defaults."+l.name] {
			return wrong("limits.defaults."+l.name, "%s is over limits.max.%s (%s)", textOf(l.into(&c.Defaults)), l.name, textOf(l.into(&c.Max)))
		}
	}
	return nil
}

// strength orders the grades of isolation.
func strength(m jail.Mode) int {
	switch m {
	case jail.Syd:
		return 2
	case jail.Minimal:
		return 1
	}
	return 0
}

// limitField is one limit, for what treats all alike.
type limitField struct {
	name string
	what string
	into func(*api.Limits) any
}

// value is the limit as a number that can be compared with the same limit elsewhere.
func (l limitField) value(of *api.Limits) float64 {
	switch v := l.into(of).(type) {
	case *api.Duration:
		return float64(*v)
	case *api.Quantity:
		return float64(*v)
	case *int64:
		return float64(*v)
	case *float64:
		return *v
	}
	return 0
}

func limitFields() []limitField {
	return []limitField{
		{"wall", "wall clock time", func(l *api.Limits) any { return &l.Wall }},
		{"cpu", "CPU time", func(l *api.Limits) any { return &l.CPU }},
		{"cpus", "CPUs at once", func(l *api.Limits) any { return &l.CPUs }},
		{"memory", "memory", func(l *api.Limits) any { return &l.Memory }},
		{"pids", "processes and threads", func(l *api.Limits) any { return &l.Pids }},
		{"disk", "disk space", func(l *api.Limits) any { return &l.Disk }},
		{"inodes", "files on disk", func(l *api.Limits) any { return &l.Inodes }},
		{"shm", "/dev/shm", func(l *api.Limits) any { return &l.Shm }},
		{"output", "bytes kept of each of stdout and stderr", func(l *api.Limits) any { return &l.Output }},
		{"open_files", "open files of a process", func(l *api.Limits) any { return &l.OpenFiles }},
	}
}
