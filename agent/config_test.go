package agent

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tolbooth-dev/tolbooth/jail"
)

// load reads a configuration as the agent command does.
func load(t *testing.T, file string, env map[string]string, args ...string) (Config, error) {
	t.Helper()
	for _, k := range keys() {
		t.Setenv(k.variable(), env[k.variable()])
	}
	if file != "" {
		path := filepath.Join(t.TempDir(), "tolbooth.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	var cfg Config
	var loadErr error
	app := &cli.App{Flags: Flags(), HideHelp: true, Action: func(c *cli.Context) error {
		cfg, loadErr = LoadConfig(c)
		return nil
	}}
	if err := app.Run(append([]string{"tolbooth"}, args...)); err != nil {
		t.Fatal(err)
	}
	return cfg, loadErr
}

func TestDefaultsStandOnTheirOwn(t *testing.T) {
	cfg, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Backend != jail.Syd || cfg.Socket != "/run/tolbooth/tolbooth.sock" || !cfg.FS.Enabled || cfg.FS.Prefix != "sandboxes" ||
		cfg.FS.Client != "file" || cfg.BucketDir() != "/var/lib/tolbooth/bucket" || time.Duration(cfg.FS.SyncInterval) != 300*time.Second ||
		cfg.Queue != 64 || cfg.MaxJobs < 4 || cfg.Listen != "" || cfg.MinimumGrade() != jail.Minimal {
		t.Errorf("%+v", cfg)
	}
}

func TestFlagOverEnvironmentOverFile(t *testing.T) {
	const file = "max_jobs: 3\nqueue: 5\nretain: 2h\nlimits:\n  defaults: {memory: 128Mi}\n  max:\n    cpus: 2\nnetwork:\n  internal: [10.0.0.0/8, 'fd00::/8']\n"
	env := map[string]string{"TOLBOOTH_MAX_JOBS": "7", "TOLBOOTH_QUEUE": "8", "SANDBOX_BACKEND": "minimal", "SANDBOX_FS_SYNC_INTERVAL": "60"}
	cfg, err := load(t, file, env, "--queue", "9", "--limits-defaults-wall", "5s")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Queue != 9 || cfg.MaxJobs != 7 || cfg.Retain != 2*time.Hour || cfg.Defaults.Memory != 128<<20 || cfg.Max.CPUs != 2 ||
		time.Duration(cfg.Defaults.Wall) != 5*time.Second || cfg.Backend != jail.Minimal || time.Duration(cfg.FS.SyncInterval) != time.Minute {
		t.Errorf("%+v", cfg)
	}
	if len(cfg.Network.Internal) != 2 || cfg.Network.Internal[1] != netip.MustParsePrefix("fd00::/8") {
		t.Errorf("%v", cfg.Network.Internal)
	}
}

func TestEveryKeyHasItsThreeNames(t *testing.T) {
	flags, vars := map[string]bool{}, map[string]bool{}
	for _, k := range keys() {
		if flags[k.flag()] || vars[k.variable()] || k.usage == "" {
			t.Errorf("%s: --%s, %s, %q", k.name, k.flag(), k.variable(), k.usage)
		}
		flags[k.flag()], vars[k.variable()] = true, true
		// What is shown as the default is read back as the same.
		a, b := DefaultConfig(), DefaultConfig()
		text := textOf(k.into(&a))
		if text == "" {
			continue
		}
		if err := parseInto(k.into(&b), text); err != nil || textOf(k.into(&b)) != text {
			t.Errorf("%s: %q is read as %q, %v", k.name, text, textOf(k.into(&b)), err)
		}
	}
	for _, name := range []string{
		"SANDBOX_BACKEND", "SANDBOX_FS_ENABLED", "SANDBOX_FS_PREFIX", "SANDBOX_FS_SYNC_INTERVAL", "BUCKET_CLIENT",
		"SPOTFLOW_STORAGE_BUCKET", "SIDECAR_AUTH_TOKEN", "STORAGE_STS_ROLE_ARN", "STORAGE_CREDENTIAL_TTL", "TOLBOOTH_LIMITS_MAX_OPEN_FILES",
	} {
		if !vars[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestRefusesToStart(t *testing.T) {
	token := strings.Repeat("x", 32)
	for _, tc := range []struct {
		name string
		file string
		env  map[string]string
		args []string
		want []string
	}{
		{"backend", "", map[string]string{"SANDBOX_BACKEND": "gvisor"}, nil, []string{"SANDBOX_BACKEND", `"gvisor"`, "syd, minimal"}},
		{"backend in capitals", "backend: SYD", nil, nil, []string{"backend", "syd, minimal"}},
		{"s3", "", map[string]string{"BUCKET_CLIENT": "s3"}, nil, []string{"BUCKET_CLIENT", "not supported by this build", "file"}},
		{"unknown bucket", "", map[string]string{"BUCKET_CLIENT": "ftp"}, nil, []string{"BUCKET_CLIENT", "file, s3, gcs, azure"}},
		{"role", "", map[string]string{"STORAGE_STS_ROLE_ARN": "arn:x"}, nil, []string{"STORAGE_STS_ROLE_ARN", "not supported"}},
		{"ttl", "", map[string]string{"STORAGE_CREDENTIAL_TTL": "60"}, nil, []string{"STORAGE_CREDENTIAL_TTL", "900", "43200"}},
		{"no token", "", nil, []string{"--listen", ":8000"}, []string{"SIDECAR_AUTH_TOKEN", "32"}},
		{"short token", "", map[string]string{"SIDECAR_AUTH_TOKEN": "short"}, []string{"--listen", ":8000"}, []string{"SIDECAR_AUTH_TOKEN", "5 characters", "32"}},
		{"blank token", "", map[string]string{"SIDECAR_AUTH_TOKEN": token + " x"}, []string{"--listen", ":8000"}, []string{"SIDECAR_AUTH_TOKEN"}},
		{"half of TLS", "", map[string]string{"SIDECAR_AUTH_TOKEN": token}, []string{"--listen", ":8000", "--tls-cert", "c"}, []string{"tls_key"}},
		{"listen", "", map[string]string{"SIDECAR_AUTH_TOKEN": token}, []string{"--listen", "8000"}, []string{"listen"}},
		{"unknown key", "max_job: 3", nil, nil, []string{`"max_job"`}},
		{"unknown nested key", "limits: {defaults: {mem: 1Gi}}", nil, nil, []string{"limits.defaults.mem"}},
		{"twice", "queue: 1\nqueue: 2", nil, nil, []string{"queue"}},
		{"yaml", "a: [", nil, nil, []string{"parse configuration"}},
		{"number", "queue: many", nil, nil, []string{"queue", `"many"`}},
		{"negative", "", nil, []string{"--queue", "-1"}, []string{"queue"}},
		{"bool", "network: {open: yes}", nil, nil, []string{"network.open", "true, false"}},
		{"quantity", "limits: {max: {memory: lots}}", nil, nil, []string{"limits.max.memory"}},
		{"no limit", "limits: {max: {pids: 0}}", nil, nil, []string{"limits.max.pids"}},
		{"default over cap", "limits: {max: {pids: 10}, defaults: {pids: 20}}", nil, nil, []string{"limits.defaults.pids", "limits.max.pids"}},
		{"grade", "backend: minimal\nmin_grade: syd", nil, nil, []string{"min_grade"}},
		{"socket", "", nil, []string{"--socket", "rel"}, []string{"socket"}},
		{"long socket", "", nil, []string{"--socket", "/" + strings.Repeat("s", 120)}, []string{"socket", "107"}},
		{"extras", "extras: [ptrace, root]", nil, nil, []string{"extras", `"root"`, "userns"}},
		{"pool", "network: {pool4: 'fd00::/64'}", nil, nil, []string{"network.pool4"}},
		{"narrow pool", "", nil, []string{"--network-pool4", "10.0.0.0/24"}, []string{"network.pool4", "/16"}},
		{"pool with host bits", "network: {pool6: 'fd00::1/64'}", nil, nil, []string{"network.pool6", "/64"}},
		{"range", "", nil, []string{"--network-internal", "10.0.0.0/8,pods"}, []string{"network.internal", `"pods"`, "10.96.0.0/12"}},
		{"memory cap", "limits: {max: {memory: 1Ki}}", nil, nil, []string{"limits.max.memory", "4Mi"}},
		{"level", "log_level: loud", nil, nil, []string{"log_level", "debug, info, warn, error"}},
		{"prefix", "filesystem: {prefix: ../x}", nil, nil, []string{"filesystem.prefix"}},
		{"missing file", "", nil, []string{"--config", "/nonexistent"}, []string{"/nonexistent"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(t, tc.file, tc.env, tc.args...)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), token) {
				t.Errorf("%q shows the token", err)
			}
		})
	}
}

func TestScalarsStayAsWritten(t *testing.T) {
	cfg, err := load(t, "token: 00000000000000000000000000000000012\nlisten: ':0'\nqueue: \n", nil)
	if err != nil || cfg.Token != "00000000000000000000000000000000012" || cfg.Queue != 64 {
		t.Errorf("%q %d %v", cfg.Token, cfg.Queue, err)
	}
}

func TestLimitsRememberWhoSetThem(t *testing.T) {
	cfg, err := load(t, "limits: {defaults: {pids: 50}, max: {memory: 64Mi}}", nil)
	if err != nil {
		t.Fatal(err)
	}
	rules := &rulebook{cfg: &cfg, lacks: func(jail.Mode) string { return "" }}
	w, err := rules.admit(request(`{"command":["x"],"limits":{"wall":"5s"}}`))
	if err != nil {
		t.Fatal(err)
	}
	l := w.Limits
	if l.Wall != (limit[time.Duration]{5 * time.Second, "request"}) || l.Pids != (limit[int64]{50, "node"}) ||
		l.Memory != (limit[int64]{64 << 20, "node"}) || l.Output != (limit[int64]{1 << 20, "default"}) || l.CPU.Value != 0 {
		t.Errorf("%+v", l)
	}
}
