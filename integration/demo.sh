#!/bin/bash
# A first look at tolbooth, on this machine: one agent with a socket, a state directory and a file bucket of its own, a
# few jobs, then a second agent that knows nothing but the bucket. Everything it makes is in one temporary directory and
# gone at the end, also after a failure. Needs root; `make demo` builds first.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" != 0 ]; then
  echo "the demo starts real jails, which needs root: sudo make demo" >&2
  exit 1
fi
for program in bin/tolbooth bin/tolbooth-jail; do
  [ -x "$program" ] || { echo "$program is missing: run make demo (or make build)" >&2; exit 1; }
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/tolbooth-demo.XXXXXX")
bucket=$dir/bucket
agent=
export PATH=$PWD/bin:$PATH
export SANDBOX_MANAGER_URL=unix://$dir/agent.sock
# What the caller's shell sets must not lead the demo elsewhere.
unset SANDBOX_BACKEND SANDBOX_FS_PREFIX SANDBOX_REMOTE_AUTH_TOKEN TOLBOOTH_CONFIG

stop_agent() {
  [ -n "$agent" ] || return 0
  kill -TERM "$agent" 2>/dev/null || true
  for _ in $(seq 100); do
    kill -0 "$agent" 2>/dev/null || break
    sleep 0.1
  done
  if kill -0 "$agent" 2>/dev/null; then
    echo "the agent does not leave; killing it" >&2
    kill -KILL "$agent" 2>/dev/null || true
  fi
  wait "$agent" 2>/dev/null || true
  agent=
}

finish() {
  code=$?
  trap - EXIT
  stop_agent
  if [ "$code" != 0 ] && compgen -G "$dir/*.log" >/dev/null; then
    echo "the demo failed; the end of the agent's log:" >&2
    tail -n 30 "$dir"/*.log >&2 || true
  fi
  rm -rf "$dir"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# start_agent NAME: an agent with the state directory NAME, and the one bucket.
start_agent() {
  type_out "tolbooth agent --socket \$SOCKET --state $1 --filesystem-bucket bucket &"
  tolbooth agent --socket "$dir/agent.sock" --state "$dir/$1" --filesystem-bucket "$bucket" --network-forward false >"$dir/$1.log" 2>&1 &
  agent=$!
  for _ in $(seq 300); do
    if tolbooth ps >/dev/null 2>&1; then return 0; fi
    kill -0 "$agent" 2>/dev/null || break
    sleep 0.1
  done
  echo "the agent did not come up" >&2
  exit 1
}

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n# %s\n' "$*"; }
type_out() { printf '$ %s\n' "$*"; }

# expect CODE COMMAND…: shows the command, runs it, and fails the demo when it ends otherwise than the text says.
expect() {
  local want=$1 code=0
  shift
  type_out "$(shown "$@")"
  "$@" || code=$?
  [ "$code" = 0 ] || echo "[exit code $code]"
  [ "$code" = "$want" ] || { echo "expected exit code $want" >&2; exit 1; }
}

# shown writes a command line as a person would type it.
shown() {
  local word text=
  for word; do
    case $word in
      "$dir"/*) word=${word#"$dir"/} ;;
      *[[:space:]\;\'\"\(\)\<\>\*\$]*) word="'${word//\'/\'\\\'\'}'" ;;
    esac
    text+="$word "
  done
  printf '%s' "${text% }"
}

say "What can this machine do? (tolbooth doctor says more)"
type_out "tolbooth doctor"
if ! tolbooth doctor --state "$dir" >"$dir/doctor"; then
  cat "$dir/doctor"
  echo "this machine cannot run jails yet: the report above says what is missing, and what to do" >&2
  exit 1
fi
sed -n '/^MODE/,/^$/{/./p}' "$dir/doctor"

say "Start an agent. Its bucket is a directory."
start_agent state-1

say "Run Python in a fresh jail. It sees no other process, no network and no file of yours."
cat >"$dir/hello.py" <<'PY'
import os, getpass, platform
print("hello from", getpass.getuser(), "in", os.getcwd(), "as process", os.getpid())
print("processes here:", sorted(int(p) for p in os.listdir("/proc") if p.isdigit()))
print("1 + 1 =", 1 + 1)
PY
expect 0 tolbooth run --lang python "$dir/hello.py"

say "A named workspace keeps what a job writes."
cat >"$dir/notes.py" <<'PY'
import csv, os, pathlib
pathlib.Path("data").mkdir(exist_ok=True)
with open("data/squares.csv", "w", newline="") as f:
    csv.writer(f).writerows([n, n * n] for n in range(1, 6))
pathlib.Path("notes.txt").write_text("written by process %d of the first agent\n" % os.getpid())
os.symlink("data/squares.csv", "latest") if not os.path.islink("latest") else None
print("wrote", sorted(os.listdir(".")))
PY
expect 0 tolbooth run --id first --workspace demo --lang python "$dir/notes.py"

say "When the job was over, its workspace was flushed to the bucket."
type_out "tolbooth show first"
tolbooth show first | grep -E '^(outcome|isolation|missing|used|steps|snapshot)'
type_out "find bucket -type f"
(cd "$dir" && find bucket -type f | sort | head -n 8)
[ -n "$(find "$bucket" -type f -print -quit)" ] || { echo "nothing was flushed" >&2; exit 1; }

say "A job has no network unless it asks. What is refused is explained, with the change that would allow it."
cat >"$dir/connect.py" <<'PY'
import socket, sys
for address in ("10.1.2.3", 443), ("169.254.169.254", 80):
    try:
        socket.create_connection(address, timeout=5)
    except OSError as e:
        print(*address, "->", e.strerror)
sys.exit(3)
PY
expect 3 tolbooth run --lang python "$dir/connect.py"

say "Every limit has a name. This one ends the job, and nothing else."
expect 137 tolbooth run --memory 64Mi -- python3 -c 'x = bytearray(10**9)'

say "Stop the agent. Start another one, with an empty state directory and the same bucket."
type_out "kill %1"
stop_agent
[ ! -e "$dir/state-2" ] || { echo "state-2 exists already" >&2; exit 1; }
start_agent state-2

say "The workspace is there, links and times and all."
expect 0 tolbooth run --workspace demo -- bash -c 'cat notes.txt; ls -l --time-style=full-iso; cat latest'

say "Done. The agent leaves, and everything of the demo with it."
stop_agent
