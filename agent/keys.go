package agent

import "strings"

// key is one setting: a dotted name in the file, the same name with dashes as a flag, and a variable.
type key struct {
	name  string
	env   string // empty: TOLBOOTH_ and the name in capitals
	usage string
	words []string          // the values allowed, when they are few
	into  func(*Config) any // pointer to the field; its type says how the text is read
}

func (k key) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(k.name) }

func (k key) variable() string {
	if k.env != "" {
		return k.env
	}
	return "TOLBOOTH_" + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// keys lists every setting. The variables without the prefix are those that operators of such services already set.
func keys() []key {
	list := []key{
		{name: "socket", usage: "unix socket of the API", into: func(c *Config) any { return &c.Socket }},
		{name: "socket_group", usage: "name or number of the group that may use the socket, beside root and the agent's own user", into: func(c *Config) any { return &c.SocketGroup }},
		{name: "state", usage: "directory of records, caches and the default bucket", into: func(c *Config) any { return &c.State }},
		{name: "jail_binary", usage: "the tolbooth-jail program (default: the one beside tolbooth)", into: func(c *Config) any { return &c.JailBinary }},
		{name: "node_name", usage: "how this node calls itself in health and leases", into: func(c *Config) any { return &c.NodeName }},
		{name: "listen", usage: "TCP address of the API, such as :8000; needs a token", into: func(c *Config) any { return &c.Listen }},
		{name: "tls_cert", usage: "PEM file with the certificate of the TCP listener", into: func(c *Config) any { return &c.TLSCert }},
		{name: "tls_key", usage: "PEM file with its key", into: func(c *Config) any { return &c.TLSKey }},
		{name: "tls_client_ca", usage: "PEM file with the CAs of client certificates, then needed beside the token", into: func(c *Config) any { return &c.TLSClientCA }},
		{name: "token", env: "SIDECAR_AUTH_TOKEN", usage: "bearer token of the TCP listener, at least 32 characters", into: func(c *Config) any { return &c.Token }},
		{name: "log_level", usage: "debug, info, warn or error", words: []string{"debug", "info", "warn", "error"}, into: func(c *Config) any { return &c.LogLevel }},

		{name: "backend", env: "SANDBOX_BACKEND", usage: "jail mode: syd or minimal", words: []string{"syd", "minimal"}, into: func(c *Config) any { return &c.Backend }},
		{name: "explainer", usage: "how refused system calls are heard of: notify (kernel 5.19), ptrace, or auto", words: []string{"auto", "notify", "ptrace"}, into: func(c *Config) any { return &c.Explainer }},
		{name: "min_grade", usage: "no job runs with less isolation, whatever it asks for (default: minimal)", words: []string{"syd", "minimal"}, into: func(c *Config) any { return &c.MinGrade }},
		{name: "extras", usage: "what policy.extras of a request may ask for: any of ptrace, io_uring, raw_socket, userns (default: none)", into: func(c *Config) any { return &c.Extras }},
		{name: "max_jobs", usage: "jobs that run at once", into: func(c *Config) any { return &c.MaxJobs }},
		{name: "queue", usage: "jobs that may wait beyond those; more are answered 429", into: func(c *Config) any { return &c.Queue }},
		{name: "prepared", usage: "jails kept ready for the next jobs", into: func(c *Config) any { return &c.Prepared }},

		{name: "max_body", usage: "largest request body", into: func(c *Config) any { return &c.MaxBody }},
		{name: "body_memory", usage: "request bodies held in memory at once, all together", into: func(c *Config) any { return &c.BodyMemory }},
		{name: "retain", usage: "how long finished jobs are kept", into: func(c *Config) any { return &c.Retain }},
		{name: "retain_jobs", usage: "how many finished jobs are kept", into: func(c *Config) any { return &c.RetainJobs }},
		{name: "drain_timeout", usage: "how long running jobs may go on after SIGTERM", into: func(c *Config) any { return &c.DrainTimeout }},
		{name: "grace", usage: "time between TERM and KILL of a cancelled job", into: func(c *Config) any { return &c.Grace }},
		{name: "start_timeout", usage: "how long each step of a job's start may take before the job ends as start_failed; the wait of a named workspace for other jobs and the bucket is not bounded by it", into: func(c *Config) any { return &c.StartTimeout }},

		{name: "audit.path", usage: "file that one line about each run is appended to (default: STATE/audit.log)", into: func(c *Config) any { return &c.Audit.Path }},
		{name: "audit.max_size", usage: "size at which a new audit file is started", into: func(c *Config) any { return &c.Audit.MaxSize }},
		{name: "audit.keep", usage: "how many older audit files are kept", into: func(c *Config) any { return &c.Audit.Keep }},

		{name: "network.open", usage: "whether jobs may have a network at all: true or false", into: func(c *Config) any { return &c.Network.Open }},
		{name: "network.forward", usage: "turn IP forwarding on when it is off: true or false", into: func(c *Config) any { return &c.Network.Forward }},
		{name: "network.pool4", usage: "IPv4 range that jails get their addresses from", into: func(c *Config) any { return &c.Network.Pool4 }},
		{name: "network.pool6", usage: "IPv6 range that jails get their addresses from", into: func(c *Config) any { return &c.Network.Pool6 }},
		{name: "network.internal", usage: "address ranges of the cluster (pods, services, nodes) that no job reaches", into: func(c *Config) any { return &c.Network.Internal }},
		{name: "network.permit", usage: "rules as in network.allow, by address or name: no request may allow more (default: no ceiling)", into: func(c *Config) any { return &c.Network.Permit }},
		{name: "network.resolv_conf", usage: "file that names the node's resolvers, search domains and ndots", into: func(c *Config) any { return &c.Network.DNS.ResolvConf }},
		{name: "network.dns_upstreams", usage: "resolvers that the jobs' lookups go to, as ADDRESS or ADDRESS:PORT (default: those of network.resolv_conf)", into: func(c *Config) any { return &c.Network.DNS.Upstreams }},
		{name: "network.dns_queries", usage: "lookups that one job may send out", into: func(c *Config) any { return &c.Network.DNS.Queries }},
		{name: "network.dns_names", usage: "distinct names among them that only a wildcard or mode open allows", into: func(c *Config) any { return &c.Network.DNS.Names }},

		{name: "filesystem.enabled", env: "SANDBOX_FS_ENABLED", usage: "synced workspaces: true or false", into: func(c *Config) any { return &c.FS.Enabled }},
		{name: "filesystem.prefix", env: "SANDBOX_FS_PREFIX", usage: "key prefix in the bucket", into: func(c *Config) any { return &c.FS.Prefix }},
		{name: "filesystem.sync_interval", env: "SANDBOX_FS_SYNC_INTERVAL", usage: "seconds between flushes of a running session's workspace", into: func(c *Config) any { return &c.FS.SyncInterval }},
		{name: "filesystem.client", env: "BUCKET_CLIENT", usage: "kind of bucket: file", words: []string{"file", "s3", "gcs", "azure"}, into: func(c *Config) any { return &c.FS.Client }},
		{name: "filesystem.bucket", env: "SPOTFLOW_STORAGE_BUCKET", usage: "bucket; for kind file a directory (default: STATE/bucket)", into: func(c *Config) any { return &c.FS.Bucket }},
		{name: "filesystem.sts_role_arn", env: "STORAGE_STS_ROLE_ARN", usage: "role of scoped storage credentials (not supported by this build)", into: func(c *Config) any { return &c.FS.RoleARN }},
		{name: "filesystem.credential_ttl", env: "STORAGE_CREDENTIAL_TTL", usage: "seconds that scoped storage credentials last, 900 to 43200", into: func(c *Config) any { return &c.FS.CredentialTTL }},
	}
	return append(list, limitKeys()...)
}

// limitKeys are limits.defaults.* and limits.max.*.
func limitKeys() []key {
	var list []key
	for _, l := range limitFields() {
		list = append(list,
			key{name: "limits.defaults." + l.name, usage: "default of a job's " + l.what, into: func(c *Config) any { return l.into(&c.Defaults) }},
			key{name: "limits.max." + l.name, usage: "most that a job may ask for: " + l.what, into: func(c *Config) any { return l.into(&c.Max) }})
	}
	return list
}
