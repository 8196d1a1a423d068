# Needs Go, git and make; everything else is built from Go modules.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
IMAGE ?= pvc-pruner:$(VERSION)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
DEV := go tool -modfile=test/tools/dev/go.mod
# The tests that are the scripts, or those scripts that RUN matches.
E2E := TestScripts$(if $(RUN),/(parallel|serial)/.*$(RUN))
# The modules of this repository.
MODULES := . $(patsubst %/go.mod,%,$(wildcard test/tools/go.mod test/tools/*/go.mod))

.PHONY: help
help: ## Show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##

.PHONY: demo
demo: ## Show the main job on a real control plane; KEEP=1 leaves it running
	@KEEP=$(KEEP) go run ./test/demo

.PHONY: test
test: ## Run all tests and print one summary
	@test/all.sh

.PHONY: unit
unit: ## Run the tests that need no control plane
	@test/all.sh unit

.PHONY: e2e
e2e: control-plane ## Run the scripts; SCRIPTS=dir runs those of another folder, RUN=regexp only those that match; KUBERNETES=v1.36
	@E2E_SCRIPTS=$(if $(SCRIPTS),$(abspath $(SCRIPTS))) E2E_KUBERNETES=$(KUBERNETES) go test ./test/e2e -count=1 -timeout=30m -v -run='$(E2E)'

.PHONY: matrix
matrix: ## Run the scripts on each minor of Kubernetes, or on those of KUBERNETES="v1.35 v1.36"; SCRIPTS and RUN as above
	@E2E_SCRIPTS=$(if $(SCRIPTS),$(abspath $(SCRIPTS))) go run ./test/matrix -run='$(E2E)' $(KUBERNETES)

.PHONY: e2e-install
e2e-install: control-plane ## Build the image, install the chart by helm on a real node, and use it; needs root and Debian; ROUNDS, RUN
	@INSTALLATION=required go test ./test/installation -count=1 -timeout=30m -v $(if $(RUN),-run='$(RUN)')

.PHONY: soak
soak: control-plane ## Scale sets at random under an observer's eyes; ROUNDS, SETS, DURATION, SEED; NOFENCE=1 must find violations
	@go run ./test/soak $(if $(ROUNDS),-rounds=$(ROUNDS)) $(if $(SETS),-sets=$(SETS)) $(if $(DURATION),-duration=$(DURATION)) \
		$(if $(SEED),-seed=$(SEED)) $(if $(NOFENCE),-tags=nofence -expect-violations)

.PHONY: crash
crash: control-plane ## Kill the pruner at, and spoil, each request of a prune; SHORT=1 every third only
	@go run ./test/crash $(if $(SHORT),-short)

.PHONY: bench
bench: control-plane ## Measure pvc-pruner beside the built-in whenScaled: Delete; ROUNDS, ONLY=reclaim/b
	@go run ./test/bench $(if $(ROUNDS),-rounds=$(ROUNDS)) $(if $(ONLY),-only=$(ONLY),-results=test/bench/results.txt)

.PHONY: model
model: ## Check the protocol of the fence exhaustively; needs spin and gcc
	@test/model/check.sh

.PHONY: control-plane
control-plane: ## Build the control plane's programs into the cache folder; KUBERNETES=v1.36 those of an older minor
	@go run ./test/cluster/cmd/control-plane -kubernetes=$(KUBERNETES)

.PHONY: build
build: ## Build bin/pvc-pruner and the plugin bin/kubectl-pvc_pruner
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: image
image: ## Build the container image IMAGE with docker, podman or buildah
	@builder="$$(command -v docker || command -v podman || command -v buildah || true)"; \
	test -n "$$builder" || { echo "image: docker, podman or buildah is needed" >&2; exit 1; }; \
	"$$builder" build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t $(IMAGE) .

.PHONY: chart
chart: ## Check the chart, and package it into dist/
	@.ci/chart

.PHONY: release
release: ## Build all of a release into dist/, and publish nothing; VERSION=v1.2.3
	@.ci/release '$(VERSION)'

.PHONY: lint
lint: ## Run the linters
	@$(DEV) golangci-lint run
	@$(DEV) golangci-lint fmt --diff

.PHONY: fix
fix: ## Format, and fix what linters can fix
	@$(DEV) golangci-lint run --fix || true
	@$(DEV) golangci-lint fmt

.PHONY: generate
generate: ## Regenerate what is generated
	@for module in $(MODULES); do (cd $$module && go mod tidy); done
	@go run ./test/reference
	@go run ./test/values
	@go tool -modfile=test/tools/chart/go.mod helm-docs --chart-search-root=charts --sort-values-order=file --log-level=warning

.PHONY: verify
verify: ## Fail where generated files are not up to date or files are not committed
	@test/verify.sh

.PHONY: clean
clean: ## Remove what was built here; the cache of the control plane stays
	rm -rf bin dist
