# make            what the targets are
# make demo       a first look, on a machine with nothing but Go
# make test       everything that CI runs

VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo dev)
# Once: tolbooth and tolbooth-jail must be of the same build, whatever is committed meanwhile.
VERSION := $(VERSION)
LDFLAGS := -s -w -X github.com/tolbooth-dev/tolbooth/jail/wire.Build=$(VERSION)
# The version comes from git describe; Go's own stamp fails in a checkout that belongs to someone else.
export GOFLAGS += -buildvcs=false
KERNEL ?=
FUZZTIME ?= 10s

# Tests that need root run as root, one package at a time; the compiler never does.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,$(if $(shell command -v sudo),-exec 'sudo -E'))

TESTS := $(CURDIR)/build/test
SUM := go run ./internal/testsum
# The jail binary that package tests start: not versioned, as they are not.
TEST_JAIL := $(TESTS)/tolbooth-jail
SKIPS := $(TESTS)/skips,build/vm-logs/skips
ROOT_ENV := TOLBOOTH_SKIPS=$(TESTS)/skips TOLBOOTH_JAIL=$(TEST_JAIL) TOLBOOTH_ALONE=1

# Expanded when a recipe runs, so that `make help` starts no compiler.
UNIT_PKGS = $(shell go list ./... | grep -v /integration)
ROOT_PKGS = $(shell go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | grep /internal/hosttest | cut -d' ' -f1 | grep -v /integration)
SOCKET_PKGS = $(shell go list ./integration/... | grep -v -e /integration/vm -e /integration/bench)

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help deps build generate check lint test run-tests run-all run-in-guests test-check test-unit test-root test-integration test-vm soak fuzz bench demo image run-ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## install the Debian packages that building and testing need (root), or name the missing ones
	@.ci/deps

build: ## build bin/tolbooth (cgo: libseccomp) and bin/tolbooth-jail (static)
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/tolbooth ./agent/cmd/tolbooth
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/tolbooth-jail ./jail/cmd/tolbooth-jail

generate: ## regenerate the eBPF objects and bindings (clang 14 or later, libbpf headers)
	go generate ./bpf

check: ## gofmt, vet, the dependency law, generated files
	@bad=$$(git ls-files '*.go' | xargs gofmt -l) && test -z "$$bad" || { echo "gofmt would change:" $$bad >&2; exit 1; }
	go vet ./...
	go test ./internal/archtest
	@.ci/generated

lint: ## golangci-lint with .golangci.yml (downloads the linter)
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run

test: deps build run-tests ## everything: checks, unit, root, socket and VM tests; counts and skips at the end

run-tests:
	@rm -rf $(TESTS) build/vm-logs && mkdir -p $(TESTS)
	@if why=$$(.ci/kernel); then $(MAKE) --no-print-directory run-all; else $(MAKE) --no-print-directory run-in-guests WHY="$$why"; fi

run-all:
	@$(MAKE) --no-print-directory -k test-check test-unit test-root test-integration test-vm || true
	@$(SUM) report -need check,unit,root,integration,vm -skips $(SKIPS) -max-skips $$(cat .ci/skips-max) -total $(TESTS)/total

# On a machine whose kernel starts no jail any more (WHY) the guests, which have kernels of their own, run as much as they can in
# reasonable time. What nobody ran is counted as skipped.
run-in-guests:
	@echo "$(WHY)"
	@TOLBOOTH_NO_FILTERS="$(WHY)" TOLBOOTH_VM_LIST=packages-alone.txt TOLBOOTH_VM_TIMEOUT=3000 \
		$(MAKE) --no-print-directory -k test-check test-unit test-vm || true
	@$(SUM) report -need check,unit,vm -skips $(SKIPS) -not-run "root, integration: $(WHY)" -total $(TESTS)/total

test-check:
	@$(SUM) step -name check -- $(MAKE) --no-print-directory check

test-unit: ## tests without root, with the race detector
	@TOLBOOTH_UNIT=1 TOLBOOTH_SKIPS=$(TESTS)/skips $(SUM) run -name unit -- -race $(UNIT_PKGS)

test-root: $(TEST_JAIL) ## each package against this machine's kernel (root)
	@$(ROOT_ENV) $(SUM) run -name root -- -p 1 -timeout 15m $(AS_ROOT) $(ROOT_PKGS)

test-integration: build $(TEST_JAIL) build/node-tests.tar.gz ## a real agent through its socket: programs, attacks, limits, workspaces (root)
	@$(ROOT_ENV) TOLBOOTH_BIN=$(CURDIR)/bin $(SUM) run -name integration -- -p 1 -parallel 4 -timeout 40m $(AS_ROOT) $(SOCKET_PKGS)

soak: build ## 10,000 jobs and 5,000 of Node: none fails, and they leave nothing behind (root)
	@TOLBOOTH_SOAK_JOBS=10000 TOLBOOTH_BIN=$(CURDIR)/bin go test ./integration/real -run '^TestMany(Node)?Jobs$$' -count 1 -v -timeout 120m $(AS_ROOT)

build/node-tests.tar.gz: .ci/node-tests
	@.ci/node-tests

test-vm: ## root and socket tests on a stock Debian kernel in QEMU (KERNEL=6.1; no KVM needed)
	@KERNEL=$(KERNEL) $(SUM) vm -name vm -- integration/vm/run.sh

.PHONY: $(TEST_JAIL)
$(TEST_JAIL):
	@mkdir -p $(TESTS)
	@CGO_ENABLED=0 go build -trimpath -o $@ ./jail/cmd/tolbooth-jail

fuzz: ## run every fuzz test for FUZZTIME (10s)
	@for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' agent bpf cowfs jail netns | xargs -n1 dirname | sort -u); do \
		for name in $$(grep -h '^func Fuzz' $$pkg/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
			echo "$$pkg $$name"; go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) ./$$pkg || exit 1; \
		done; done

BENCH_TABLE := $(CURDIR)/build/bench.txt
ROUNDS ?= 300
bench: deps build ## POST to result beside bwrap, crun, runc and plain exec; overhead inside the jail; the network; a table at the end (root)
	@mkdir -p build && rm -f $(BENCH_TABLE)
	@TOLBOOTH_BENCH_TABLE=$(BENCH_TABLE) TOLBOOTH_BIN=$(CURDIR)/bin go test -run '^$$' -bench Start -benchtime $(ROUNDS)x -timeout 30m $(AS_ROOT) ./integration/bench
	@TOLBOOTH_BENCH_TABLE=$(BENCH_TABLE) TOLBOOTH_BIN=$(CURDIR)/bin go test -run '^$$' -bench Inside -benchtime 7x -timeout 30m $(AS_ROOT) ./integration/bench
	@TOLBOOTH_BENCH_TABLE=$(BENCH_TABLE) TOLBOOTH_BIN=$(CURDIR)/bin go test -run '^$$' -bench Networks -benchtime 500x -timeout 30m $(AS_ROOT) ./integration/bench
	@go test -run '^$$' -bench Stream -benchtime 9x $(AS_ROOT) ./netns && go test -run '^$$' -bench RoundTrip -benchtime 50000x $(AS_ROOT) ./netns
	@echo && cat $(BENCH_TABLE)

demo: ## build, then run a few jobs in real jails and show what comes back (root)
	@.ci/deps build
	@$(MAKE) --no-print-directory build
	@integration/demo.sh

image: build ## build/tolbooth-image.tar, an OCI image archive, without a container engine
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/tolbooth-container ./deploy/container
	go run ./deploy/image -version $(VERSION) -revision "$(shell git rev-parse HEAD 2>/dev/null)" $(IMAGE_FLAGS)

run-ci: ## what CI runs
	.ci/run

clean: ## remove what was built (the VM image cache stays)
	rm -rf bin build
