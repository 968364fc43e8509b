package hostile

import (
	"time"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
)

// Chapter E: resources and the life of a job.
var attacksE = []attack{
	{id: "E1", file: "e01_fork_bomb.py", alone: true, outcome: api.OutcomePidsLimit, limit: "pids", within: 10 * time.Second},
	{id: "E1", file: "e01_refusals.py", alone: true, outcome: api.OutcomePidsLimit, limit: "pids", rules: []string{"syscall.ptrace"}, within: 20 * time.Second},
	{id: "E2", file: "e02_memory.py", alone: true, outcome: api.OutcomeMemoryLimit, limit: "memory", within: 10 * time.Second},
	{id: "E3", file: "e03_netlink.py", alone: true, outcome: api.OutcomeMemoryLimit, limit: "netlink", within: 10 * time.Second},
	{id: "E3", file: "e03_sockets.py", alone: true, held: 1, limits: api.Limits{Memory: 64 << 20}},
	{id: "E4", file: "e04_output.py", alone: true, outcome: api.OutcomeOutputLimit, limit: "output", within: 10 * time.Second},
	{id: "E7", file: "e07_daemon.py", held: 1, within: 3 * time.Second},
	{id: "E8", file: "e08_stopped.py", held: 1, outcome: api.OutcomeWallLimit, limit: "wall", limits: api.Limits{Wall: api.Duration(2 * harness.Slow)}, within: 6 * time.Second},
	{id: "E8", file: "e08_blocked.py", held: 1, outcome: api.OutcomeWallLimit, limit: "wall", limits: api.Limits{Wall: api.Duration(3 * harness.Slow)}, within: 7 * time.Second},
	{id: "E9", file: "e09_zombies.py", alone: true, held: 1},
	{id: "E9", file: "e09_many.py", alone: true, held: 1, limits: api.Limits{Pids: 128}},
	{id: "E16", file: "e16_deleted.py", alone: true, outcome: api.OutcomeDiskLimit, limit: "disk", limits: api.Limits{Disk: 40 << 20}, within: 10 * time.Second},
	{id: "E16", file: "e16_moved.py", alone: true, outcome: api.OutcomeDiskLimit, limit: "disk", limits: api.Limits{Disk: 40 << 20}, within: 30 * time.Second},
}
