#!/bin/bash
# Build the binaries and pack them as an OCI image archive (make image).
#
#   deploy/image/build.sh [FLAGS of deploy/image, such as -name registry/repo:tag or -with nodejs,gcc]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/image
mkdir -p "$out"
go build -trimpath -o "$out/tolbooth" ./agent/cmd/tolbooth
CGO_ENABLED=0 go build -trimpath -o "$out/tolbooth-jail" ./jail/cmd/tolbooth-jail
CGO_ENABLED=0 go build -trimpath -o "$out/tolbooth-container" ./deploy/container
revision=$(git rev-parse HEAD 2>/dev/null || true)
version=$(git describe --tags --always --dirty 2>/dev/null || echo dev)
go run ./deploy/image -tolbooth "$out/tolbooth" -jail "$out/tolbooth-jail" -entry "$out/tolbooth-container" \
  -version "$version" -revision "$revision" "$@"
