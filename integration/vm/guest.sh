#!/bin/bash
# Run the staged tests on this machine, as root: inside the guest of run.sh, or a Vagrant box.
#
#   integration/vm/guest.sh [PACKAGE…]      default: all of packages.txt
#
# One line a test, the whole log of a package that failed, the skips with their reasons, a summary; the exit code is 0
# only when every package ran and passed. TOLBOOTH_VM_VERBOSE=1 prints everything. Several guests that share a directory
# TOLBOOTH_VM_QUEUE divide the packages among them.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
stage=$(cd "$here/../.." && pwd)
[ -d "$stage/build/vm/bin" ] && stage=$stage/build/vm # started from a checkout: /vagrant
[ -d "$stage/bin" ] || { echo "nothing staged: run integration/vm/build-tests.sh on the host first" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "needs root" >&2; exit 2; }

logs=${TOLBOOTH_VM_LOGS:-$(mktemp -d)}
mkdir -p "$logs"
export TOLBOOTH_SLOW_FACTOR=${TOLBOOTH_SLOW_FACTOR:-30} TOLBOOTH_SKIPS=$logs/skips
export TOLBOOTH_VM=1 TOLBOOTH_BIN=$stage/bin
[ -x "$stage/bin/tolbooth-jail" ] && export TOLBOOTH_JAIL=$stage/bin/tolbooth-jail
: >"$TOLBOOTH_SKIPS"

# What a node that delegates to its agent has: every controller handed down from the root. systemd hands down only what
# its own units use.
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
  echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null ||
    echo "guest: controller $controller stays with the root" >&2
done

# claim takes a package off the queue: mkdir succeeds in one guest only.
claim() { [ -z "${TOLBOOTH_VM_QUEUE:-}" ] || mkdir "$TOLBOOTH_VM_QUEUE/$(echo "$1" | tr / -)" 2>/dev/null; }

passed=0 failed=0 skipped=0
run() { # PACKAGE REGEXP MINUTES [SKIP-REGEXP]
  local package=$1 regexp=$2 minutes=$3 skip=$4 log started code
  log=$logs/$(echo "${package#./}" | tr / -).log
  started=$SECONDS
  echo "=== $package"
  if [ ! -x "$stage/$package/package.test" ]; then
    echo "FAIL $package: no test binary" | tee "$log"
    failed=$((failed + 1))
    return
  fi
  (cd "$stage/$package" && exec timeout -k 10 "$((minutes * 60 + 30))" ./package.test -test.v -test.run "$regexp" -test.skip "$skip" -test.timeout "${minutes}m") \
    </dev/null 2>&1 | tee "$log" | if [ -n "${TOLBOOTH_VM_VERBOSE:-}" ]; then cat; else grep --line-buffered -E '^--- |^ +--- FAIL'; fi
  code=${PIPESTATUS[0]}
  local p f s
  p=$(grep -cE '^ *--- PASS' "$log")
  f=$(grep -cE '^ *--- FAIL' "$log")
  s=$(grep -cE '^ *--- SKIP' "$log")
  # A panic, a failed leak check or a kill names no test.
  if [ "$code" != 0 ] && [ "$f" = 0 ]; then f=1; fi
  # A list that selects nothing must not look like a success.
  if [ "$code" = 0 ] && [ $((p + f + s)) = 0 ]; then
    echo "FAIL $package: no test matches $regexp"
    f=1
  fi
  if [ "$f" != 0 ] && [ -z "${TOLBOOTH_VM_VERBOSE:-}" ]; then
    echo "--- log of $package (exit $code)"
    tail -n 400 "$log"
  fi
  echo "$package: $p passed, $f failed, $s skipped, $((SECONDS - started)) s"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

while read -r package regexp minutes skip; do
  [ $# = 0 ] || printf '%s\n' "$@" | grep -qxF -- "$package" || continue
  claim "$package" || continue
  run "$package" "$regexp" "$minutes" "${skip:-^$}"
done < <(grep -v '^ *\(#\|$\)' "$here/packages.txt")

if [ -n "${TOLBOOTH_VM_QUEUE:-}" ]; then # run.sh adds up
  echo "$passed $failed $skipped" >"$logs/counts"
  exit 0
fi
sort "$TOLBOOTH_SKIPS" | uniq -c
release=$(uname -r)
echo "VM $(echo "$release" | cut -d. -f1,2): $passed passed, $failed failed, $skipped skipped ($release, $SECONDS s)"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
