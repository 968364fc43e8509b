#!/bin/bash
# Compile what the guest runs, on the host: the guest has no Go.
#
#   integration/vm/build-tests.sh [STAGE [PACKAGE…]]     default: build/vm below the repository, all of packages.txt
#
# STAGE then holds the two binaries, one test binary a package with the data it reads, and guest.sh beside its lists,
# all at the paths that they have in the repository.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
stage=${1:-$repo/build/vm}
[ $# = 0 ] || shift
rm -rf --one-file-system "$stage"
mkdir -p "$stage/bin" "$stage/integration/vm"
stage=$(cd "$stage" && pwd)
cd "$repo"

# Nothing here is piped into grep -q: it ends at the first match, and under pipefail a writer that then dies of SIGPIPE makes
# the whole pipe say no.
selected() { # the packages asked for, in the order of the list
  grep -v '^ *\(#\|$\)' "$here/${TOLBOOTH_VM_LIST:-packages.txt}" | while read -r package _; do
    if [ $# = 0 ] || printf '%s\n' "$@" | grep -xF -- "$package" >/dev/null; then echo "$package"; fi
  done
}

# Tests of one package need the jail's binary at most, and not an agent that builds.
CGO_ENABLED=0 nice go build -trimpath -o "$stage/bin/tolbooth-jail" ./jail/cmd/tolbooth-jail
CGO_ENABLED=0 nice go build -trimpath -o "$stage/bin/tolbooth-container" ./deploy/container
if selected "$@" | grep -e '^./integration/[^v]' -e '/container$' >/dev/null; then
  # It links libseccomp dynamically, as tests that import jail/filter do: the guest is the same Debian with libseccomp2.
  nice go build -trimpath -o "$stage/bin/tolbooth" ./agent/cmd/tolbooth
fi

for package in $(selected "$@"); do
  mkdir -p "$stage/$package"
  # Pure Go unless the package has cgo below it, so that as little as possible depends on the host's C library.
  cgo=0
  if go list -deps -f '{{if .CgoFiles}}{{.ImportPath}}{{end}}' -test "$package" | grep '/libseccomp-golang$' >/dev/null; then cgo=1; fi
  CGO_ENABLED=$cgo nice go test -c -trimpath -o "$stage/$package/package.test" "$package"
  if [ -d "$package/testdata" ]; then cp -r "$package/testdata" "$stage/$package/"; fi
done
cp "$here/guest.sh" "$stage/integration/vm/"
cp "$here/${TOLBOOTH_VM_LIST:-packages.txt}" "$stage/integration/vm/packages.txt"
