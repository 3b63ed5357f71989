# Copyright The nhc-controller Authors.
# SPDX-License-Identifier: Apache-2.0

# The version that is being worked on. The manifests name its image.
RELEASE := v0.1.0
IMAGE ?= ghcr.io/nhc-controller/nhc-controller:$(RELEASE)
CONTAINER_TOOL ?= docker

SHELL := /usr/bin/env bash
.SHELLFLAGS := -o errexit -o nounset -o pipefail -c
.DEFAULT_GOAL := help

# Everything works in a copy that is no clone, too. With the same flags as hack/localkube/build.sh,
# what the product, the tests and the linter share with the control plane is compiled once. The linter
# vets; go test would have to check every dependency for it, too. A debugger needs DWARF, stack traces do
# not; without it, compilers take a fifth less. Releases have their own flags.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false -trimpath -vet=off -gcflags=all=-dwarf=false)
export GOWORK := off
export CGO_ENABLED := 0

LDFLAGS = -s -w $(shell hack/version.sh $(RELEASE))
GOLANGCI_LINT := go run -modfile=hack/tools/golangci-lint/go.mod github.com/golangci/golangci-lint/v2/cmd/golangci-lint

# Prints the results of go test -json as they come, and keeps them for the sum: $(call FOLLOW,NAME).
FOLLOW = go run ./hack/testreport -keep=_output/tests/$(1).json

# Without it, a process with the race detector sleeps for a second before it exits.
export GORACE ?= atexit_sleep_ms=50

TEST_FLAGS ?=
TEST_TIMEOUT ?= 40m

##@ General

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-zA-Z_-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: ## Build bin/nhc-controller, bin/nhc-dashboard and bin/kubectl-nhc.
	GOGC=400 go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/nhc-controller ./cmd/nhc-dashboard ./cmd/kubectl-nhc

.PHONY: build-plugin
build-plugin: ## Build bin/kubectl-nhc, the plugin kubectl nhc.
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/kubectl-nhc

# The Go that builds the image with a container engine: a release names it by its digest.
GO_IMAGE ?= golang:1.26

.PHONY: image
image: ## Build the container image with a container engine (CONTAINER_TOOL).
	@[[ '$(LDFLAGS)' == *-dev+* || '$(GO_IMAGE)' == *@sha256:* ]] || \
		{ echo "This is a release: name the Go that builds it by its digest, GO_IMAGE=golang:...@sha256:..." >&2; exit 1; }
	$(CONTAINER_TOOL) build --build-arg GO_IMAGE=$(GO_IMAGE) --build-arg 'LDFLAGS=$(LDFLAGS)' --tag $(IMAGE) .

# What make image-oci builds for.
IMAGE_ARCHITECTURES ?= amd64 arm64
IMAGE_DIR ?= _output/image

.PHONY: image-oci
image-oci: ## Build the container image into IMAGE_DIR, without a container engine, for IMAGE_ARCHITECTURES.
	hack/image.sh '$(IMAGE_DIR)' '$(IMAGE)' '$(LDFLAGS)' $(IMAGE_ARCHITECTURES)

# The platforms that the plugin is released for.
PLUGIN_PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64
PLUGIN_DIR ?= _output/plugin

.PHONY: plugin
plugin: ## Build the plugin for PLUGIN_PLATFORMS, and its Krew manifest, into PLUGIN_DIR.
	hack/plugin.sh '$(PLUGIN_DIR)' '$(RELEASE)' '$(LDFLAGS)' $(PLUGIN_PLATFORMS)

.PHONY: sbom
sbom: build ## List the modules in bin/nhc-controller and bin/nhc-dashboard in _output/*.cdx.json (CycloneDX).
	hack/sbom.sh bin/nhc-controller _output/nhc-controller.cdx.json
	hack/sbom.sh bin/nhc-dashboard _output/nhc-dashboard.cdx.json

.PHONY: localkube
localkube: ## Build the control plane of the tests and the demo into bin/ (minutes the first time).
	@hack/localkube/build.sh bin

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin _output dist

##@ Try

# What the demo shows; another name gets a list.
SCENARIO ?= nodes

# One build of the product and the control plane. The demo comes with it.
.PHONY: demo
demo: demo-scenario ## Show the controller at work on a control plane of its own (SCENARIO=nodes or zone; KEEP=1 leaves it running, with a dashboard).
	@PRODUCT_LDFLAGS='$(LDFLAGS)' hack/localkube/build.sh bin ./cmd/nhc-controller ./cmd/nhc-dashboard ./cmd/kubectl-nhc ./test/demo
	@bin/demo '$(SCENARIO)'

# Before anything is built, which takes minutes.
.PHONY: demo-scenario
demo-scenario:
	@grep --quiet -- 'name: *"$(SCENARIO)"' test/demo/scenario_*.go || \
		{ echo 'There is no scenario $(SCENARIO): SCENARIO=nodes or zone' >&2; exit 1; }

# Not part of localkube: only real nodes need a kubelet.
.PHONY: nodes
nodes: localkube
	@hack/localkube/build.sh bin nodes
	go build -ldflags='-s -w' -o bin/ ./test/nodes/realnode
	@$(MAKE) --no-print-directory image-oci IMAGE_ARCHITECTURES="$$(go env GOARCH)" IMAGE_DIR=_output/nodes

# Before anything else is built.
.PHONY: nodes-requirements
nodes-requirements:
	@go run ./test/nodes/demo -check

.PHONY: demo-nodes
demo-nodes: nodes-requirements build nodes ## Show a pod with a volume that is stuck on a failed node, and the controller at work, on real nodes (Linux, as root; 4 minutes; KEEP=1 leaves it running).
	go run ./test/nodes/demo

##@ Test

# One suite after the other: nothing that a test waits for is late because of another suite.
.PHONY: test
test: compiled-tests ## Run the unit tests, the simulation, and the core of the tests on control planes.
	@rm -rf _output/tests
	@status=0; for suite in test-unit test-core; do $(MAKE) --no-print-directory "$${suite}" || status=1; done; \
		go run ./hack/testreport -skips=hack/skips.txt _output/tests/*.json && exit "$${status}"

# They run on control planes.
ON_CONTROL_PLANES = ./test/integration ./test/image ./test/localkube

# They need Helm: make verify-chart and make install-test run them.
HELM_TESTS = ./test/chart ./test/install

# All other packages.
UNIT = $$(go list ./... | grep --invert-match --line-regexp --fixed-strings "$$(go list $(ON_CONTROL_PLANES) $(HELM_TESTS) ./test/faults ./test/nodes)")

# The race detector needs cgo, and that a C compiler.
WITH_RACE = CGO_ENABLED=1

.PHONY: c-compiler
c-compiler:
	@command -v "$$(go env CC)" >/dev/null || { echo "The race detector needs a C compiler: install gcc, or set CC" >&2; exit 1; }

_output/tests:
	@mkdir -p $@

# What go list exports it compiles, and does not link.
.PHONY: compiled-tests
compiled-tests: localkube build
	@echo "Compiling the tests"
	@go list -export -test $(UNIT) ./test/integration >/dev/null

# Go does not run the tests of a package again if nothing that they use has changed, unless TEST_FLAGS has -count=1.
# Goroutines of a simulation run on four processors. Memory is not what tests are short of (GOGC).
.PHONY: test-unit
test-unit: _output/tests ## Run the tests that need no control plane.
	@echo "Running the unit tests and the simulation"
	@GOGC=400 go test -json -timeout $(TEST_TIMEOUT) -cpu 4 $(TEST_FLAGS) $(UNIT) | $(call FOLLOW,unit)
	@go -C hack/image test -json -vet=all ./... | $(call FOLLOW,image-module) # A module of its own, which the linter does not read.

# The programs with the race detector in them.
.PHONY: build-race
build-race: c-compiler
	$(WITH_RACE) go build -race -o bin/race/ ./cmd/nhc-controller

# The programs that the integration tests run: bin, or bin/race as in nightly-race.
PROGRAMS ?= bin

# Most tests wait for what the control planes do, so several of them run at a time.
PARALLEL ?= 8

# How many control planes there are besides the shared one. Each takes up to a gigabyte of memory.
CLUSTERS ?= 2

# $(call INTEGRATION,NAME,PACKAGES AND FLAGS)
INTEGRATION = NHC_CONTROLLER=$(CURDIR)/$(PROGRAMS)/nhc-controller go test -json -count=1 -timeout $(TEST_TIMEOUT) -parallel $(PARALLEL) $(TEST_FLAGS) $(2) \
	| $(call FOLLOW,$(1)) -tests

# A regular expression for the tests that a file lists.
LISTED = ^($$(grep --no-filename --invert-match '^\#' $(1) | paste --serial --delimiters='|'))$$

.PHONY: test-core
test-core: localkube build _output/tests ## Run the core of the tests on control planes (test/integration/testdata/core.txt).
	@echo "Running the core of the tests on control planes"
	@$(call INTEGRATION,core,./test/integration -run "$(call LISTED,test/integration/testdata/core.txt)" -clusters=$(CLUSTERS))

# Those that judge by seconds are left to make nightly.
.PHONY: test-rest
test-rest: localkube build _output/tests ## Run the other tests on control planes, except those that judge by seconds (test/integration/testdata/seconds.txt).
	@echo "Running the other tests on control planes"
	@$(call INTEGRATION,rest,-p 1 $(ON_CONTROL_PLANES) -skip "$(call LISTED,test/integration/testdata/core.txt test/integration/testdata/seconds.txt)")

.PHONY: test-integration
test-integration: localkube $(if $(filter bin,$(PROGRAMS)),build,build-race) _output/tests ## Run all tests on control planes.
	@echo "Running the tests on control planes"
	@$(call INTEGRATION,integration,-p 1 $(ON_CONTROL_PLANES))

# The release that TestRollingUpdate updates from. As long as there is none, a commit stands in for it.
PREVIOUS ?= $(shell git describe --tags --abbrev=0 HEAD^ 2>/dev/null || echo aae2e14)

.PHONY: build-previous
build-previous: c-compiler
	rm -rf _output/previous && mkdir -p _output/previous/source
	git archive '$(PREVIOUS)' | tar -x -C _output/previous/source
	$(WITH_RACE) go -C _output/previous/source build -race -o ../nhc-controller ./cmd/nhc-controller

FAULTS_FLAGS ?=

# They put the controllers under load while everything fails: here the race detector has most to find.
.PHONY: test-faults
test-faults: localkube build-race _output/tests ## Run the failure tests, in their short form.
	@echo "Running the failure tests"
	@NHC_CONTROLLER=$(CURDIR)/bin/race/nhc-controller go test -json -count=1 -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) ./test/faults $(FAULTS_FLAGS) \
		| $(call FOLLOW,faults) -tests

# In this form nothing depends on how fast a machine is.
.PHONY: test-faults-order
test-faults-order: localkube build _output/tests ## Run three failure tests, judged by order only.
	@echo "Running failure tests, judged by order"
	@NHC_CONTROLLER=$(CURDIR)/bin/nhc-controller go test -json -count=1 -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) ./test/faults \
		-run '^Test(APIServer|Killed|Leaders)$$' -faults.order | $(call FOLLOW,faults-order) -tests

SEEDS ?= 1000
FIRST ?= 1

# With more processors, goroutines that can run at the same instant run in more different orders.
.PHONY: simulate
simulate: ## Simulate the controller in SEEDS random clusters, the first one with seed FIRST.
	go test -count=1 -cpu 4 -timeout 12h -v $(TEST_FLAGS) ./test/simulation -run '^TestSimulation$$' -simulation.seeds=$(SEEDS) -simulation.first=$(FIRST) \
		| grep --line-buffered --invert-match -E '^ *(=== |--- PASS)'

.PHONY: planted-bugs
planted-bugs: ## Require that the tests notice each of the bugs in test/plantedbugs (about 20 minutes).
	go run ./test/plantedbugs $(PLANTED_BUGS_FLAGS)

# Packages whose decisions are pure.
MUTATED := health status remediation machinehealth budget

.PHONY: mutation
mutation: $(addprefix mutation-,$(MUTATED)) ## Change the pure packages, and require that their tests notice 85 % of the changes (hours).

mutation-%:
	go tool -modfile=hack/tools/gremlins/go.mod gremlins unleash --workers 2 --timeout-coefficient 30 --threshold-efficacy 85 ./pkg/$*

# The seed of this night: with it a failure can be repeated.
NIGHTLY_SEED ?= $(shell date +%Y%m%d)

# What .ci/run makes in turn, besides install-test and verify-reproducible.
.PHONY: turn-race
turn-race: c-compiler _output/tests ## Run the tests of packages with goroutines, and 20 simulations, with the race detector.
	@$(WITH_RACE) go test -json -count=1 -race -timeout $(TEST_TIMEOUT) ./pkg/watches ./pkg/nodeindex ./pkg/reconcile ./pkg/sightings ./test/simulation | $(call FOLLOW,turn-race)

.PHONY: turn-kill-points
turn-kill-points: localkube build _output/tests ## Kill the controller at each of its writes.
	@$(call INTEGRATION,turn-kill-points,./test/integration -run '^TestKilledAtEachWrite$$' -kill.all)

# What takes too long for every change, in targets of an hour at most.
NIGHTLY := nightly-race-unit nightly-race-simulation nightly-race-integration nightly-kill-points test-nodes \
	$(addprefix nightly-faults-,Killed Leaders RollingUpdate APIServer Churn) \
	$(addprefix nightly-simulation-,0 1 2 3 4 5 6 7 8 9) nightly-fuzz planted-bugs $(addprefix mutation-,$(MUTATED)) nightly-bench \
	install-test test-versions test-cluster-api verify-cluster-api verify-reproducible verify-release govulncheck

# Everything runs even if something has failed.
.PHONY: nightly
nightly: ## Run what takes too long for make test (a day; side by side in the workflow Nightly).
	@echo "The seed is $(NIGHTLY_SEED)"
	$(MAKE) --keep-going $(NIGHTLY)

.PHONY: nightly-targets
nightly-targets:
	@printf '%s\n' $(NIGHTLY)

.PHONY: nightly-race-unit
nightly-race-unit: c-compiler _output/tests
	$(WITH_RACE) go test -json -count=1 -race -timeout 1h $(UNIT) | $(call FOLLOW,nightly-race)

.PHONY: nightly-race-simulation
nightly-race-simulation: c-compiler
	$(MAKE) simulate $(WITH_RACE) SEEDS=200 TEST_FLAGS=-race

.PHONY: nightly-race-integration
nightly-race-integration:
	$(MAKE) test-integration PROGRAMS=bin/race

.PHONY: nightly-kill-points
nightly-kill-points: localkube build-race _output/tests
	$(WITH_RACE) NHC_CONTROLLER=$(CURDIR)/bin/race/nhc-controller go test -json -count=1 -race -timeout 1h ./test/integration \
		-run 'KilledAtEachWrite' -kill.all | $(call FOLLOW,nightly-kill-points) -tests

# One of the failure tests in its long form.
nightly-faults-%: build build-previous
	$(MAKE) test-faults $(WITH_RACE) TEST_TIMEOUT=3h TEST_FLAGS='-race -run ^Test$*$$$$' \
		FAULTS_FLAGS='-faults.long=true -faults.previous=$(CURDIR)/_output/previous/nhc-controller -faults.seed=$(NIGHTLY_SEED)'

# No seed of one night is one of another.
nightly-simulation-%:
	$(MAKE) simulate SEEDS=2000 FIRST=$(NIGHTLY_SEED)$*0000

# A goal that is missed makes it fail.
.PHONY: nightly-bench
nightly-bench:
	$(MAKE) bench BENCH_FLAGS=-strict
	go run ./test/bench -nodes=10000 -scenarios=idle,storm -rounds=1 -duration=5s -strict

.PHONY: nightly-fuzz
nightly-fuzz:
	$(MAKE) fuzz FUZZTIME=90s

FUZZTIME ?= 5s

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME.
	FUZZTIME=$(FUZZTIME) hack/fuzz.sh

# Not part of test: Helm takes minutes to compile, once.
.PHONY: helm
helm:
	@mkdir -p _output
	go -C hack/tools/helm build -ldflags='-s -w' -o '$(CURDIR)/_output/helm' helm.sh/helm/v4/cmd/helm

.PHONY: install-test
install-test: build localkube helm ## Install, remediate and uninstall in each way of the documentation (4 minutes).
	NHC_HELM='$(CURDIR)/_output/helm' go test -count=1 -timeout 20m $(TEST_FLAGS) ./test/install

# Besides the version in hack/localkube/go.mod, which all other tests run on.
KUBERNETES_VERSIONS ?= v1.30

# Those that need a newer version, or would take hours.
NOT_ON_VERSIONS = ^Test(PodAdmission|KilledAtEachWrite)$$

.PHONY: test-versions
test-versions: build helm ## Run the integration tests and install-test on other versions of Kubernetes, which it builds first (twenty minutes each).
	@for version in $(KUBERNETES_VERSIONS); do \
		hack/localkube/build.sh "bin/$${version}" "$${version}"; \
		LOCALKUBE_BIN="$(CURDIR)/bin/$${version}" go test -count=1 -timeout $(TEST_TIMEOUT) -parallel $(PARALLEL) $(TEST_FLAGS) ./test/integration -skip '$(NOT_ON_VERSIONS)'; \
		LOCALKUBE_BIN="$(CURDIR)/bin/$${version}" NHC_HELM='$(CURDIR)/_output/helm' go test -count=1 -timeout 20m $(TEST_FLAGS) ./test/install; \
	done

# Clusters wait more than they work: several run side by side. $(call NODES,FLAGS)
NODES = NHC_HELM='$(CURDIR)/_output/helm' go test -json -count=1 -timeout 60m -parallel 5 $(TEST_FLAGS) ./test/nodes $(1) | $(call FOLLOW,nodes) -tests

.PHONY: test-nodes
test-nodes: nodes-requirements build nodes helm _output/tests ## Run the tests on real nodes, which really fail, and judge how long things take (Linux, as root; 10 minutes).
	@$(call NODES,-nodes.seconds)

.PHONY: test-nodes-order
test-nodes-order: nodes-requirements build nodes _output/tests ## Run two stories on real nodes, judged by order only (Linux, as root; 3 minutes).
	@$(call NODES,-run '^Test(FailedNode|Uninstall)$$')

# A module of its own. Not part of test: Cluster API takes minutes to compile, once.
.PHONY: test-cluster-api
test-cluster-api: localkube build-race ## Run the controller together with the real controllers of Cluster API.
	NHC_CONTROLLER=$(CURDIR)/bin/race/nhc-controller go -C test/clusterapi test -count=1 -timeout 30m $(TEST_FLAGS) ./...

# What judges how accessible the pages are.
test/dashboard/node_modules: test/dashboard/package-lock.json
	@command -v npm >/dev/null || { echo "The tests of the dashboard need npm, for axe-core: install it" >&2; exit 1; }
	npm ci --prefix test/dashboard --no-audit --no-fund
	@touch $@

# A module of its own. Not part of test: it needs a browser.
.PHONY: test-dashboard
test-dashboard: test/dashboard/node_modules ## Test the dashboard of kubectl nhc in a browser (needs npm, and Chromium or NHC_BROWSER).
	go -C test/dashboard test -count=1 -parallel 2 -timeout 20m $(TEST_FLAGS) ./...

.PHONY: screenshots
screenshots: ## Take the screenshots of the dashboard, docs/images (needs Chromium, or NHC_BROWSER).
	go -C test/dashboard test -count=1 -run '^TestScreenshots$$' . -screenshots='$(CURDIR)/docs/images'

##@ Measure

# On a machine that does nothing else.
.PHONY: bench
bench: build localkube ## Measure the controller on control planes of its own, with up to 1,000 nodes (10 minutes).
	go run ./test/bench -samples=50 -duration=15s $(BENCH_FLAGS)

.PHONY: bench-full
bench-full: build localkube ## Measure it with up to 10,000 nodes (an hour).
	go run ./test/bench -nodes=200,1000,5000,10000 -samples=500 $(BENCH_FLAGS)

.PHONY: bench-go
bench-go: ## Run the Go benchmarks, with output for benchstat.
	go test -run '^$$' -bench . -benchmem -count=6 ./pkg/...

##@ Develop

.PHONY: generate
generate: ## Generate the code that follows from the API types, then the manifests.
	hack/update-codegen.sh
	@$(MAKE) --no-print-directory manifests

.PHONY: manifests
manifests: ## Generate the CRD, manifests/install.yaml and the generated files of the Helm chart.
	hack/update-manifests.sh

.PHONY: fmt
fmt: ## Format the code.
	go fmt ./...

.PHONY: lint
lint: ## Run golangci-lint, at the version in hack/tools.
	$(GOLANGCI_LINT) run ./...

.PHONY: verify
verify: verify-boilerplate verify-fmt verify-lines verify-tidy verify-versions verify-codegen verify-manifests verify-workflows lint ## Check everything but the tests.

.PHONY: verify-boilerplate
verify-boilerplate: ## Check the copyright notices.
	hack/verify-boilerplate.sh

.PHONY: verify-fmt
verify-fmt: ## Check the format of the code.
	@unformatted="$$(find . \( -path ./.git -o -path ./bin -o -path ./_output \) -prune -o -name '*.go' -print | xargs gofmt -l)"; \
	if [[ -n "$$unformatted" ]]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

.PHONY: verify-lines
verify-lines: ## Check that no package outgrows its entry in hack/lines.txt.
	hack/verify-lines.sh

.PHONY: lines
lines: ## Write the lines of each package to hack/lines.txt.
	hack/verify-lines.sh --update

.PHONY: verify-tidy
verify-tidy: ## Check the go.mod files.
	hack/verify-tidy.sh

.PHONY: verify-versions
verify-versions: ## Check that the product and the control plane of the tests share their modules.
	hack/verify-versions.sh

.PHONY: verify-codegen
verify-codegen: ## Check that the generated code is up to date.
	hack/verify-codegen.sh

.PHONY: verify-manifests
verify-manifests: ## Check that the CRD, manifests/install.yaml and the Helm chart are up to date.
	hack/verify-manifests.sh

# Without shellcheck and pyflakes, which are there on some machines only.
.PHONY: verify-workflows
verify-workflows: ## Check the workflows.
	go run -modfile=hack/tools/actionlint/go.mod github.com/rhysd/actionlint/cmd/actionlint -shellcheck= -pyflakes= .github/workflows/*.yaml

# Not part of verify: promtool takes minutes to compile, once.
.PHONY: verify-monitoring
verify-monitoring: ## Check the alerts, the dashboard and the runbooks.
	hack/verify-monitoring.sh

# Not part of verify: Cluster API takes minutes to compile, once.
.PHONY: verify-cluster-api
verify-cluster-api: ## Run golangci-lint on test/clusterapi.
	cd test/clusterapi && go run -modfile=../../hack/tools/golangci-lint/go.mod github.com/golangci/golangci-lint/v2/cmd/golangci-lint run ./...

# Not part of verify: what drives the browser takes a while to compile, once.
.PHONY: verify-dashboard
verify-dashboard: ## Run golangci-lint on test/dashboard.
	cd test/dashboard && go run -modfile=../../hack/tools/golangci-lint/go.mod github.com/golangci/golangci-lint/v2/cmd/golangci-lint run ./...

# Not part of verify: Helm takes minutes to compile, once.
.PHONY: verify-chart
verify-chart: build localkube helm ## Test the Helm chart with Helm, on a real control plane.
	NHC_HELM='$(CURDIR)/_output/helm' go test -count=1 -timeout 20m ./test/chart

# Not part of verify: it compiles everything twice, without the build cache.
.PHONY: verify-reproducible
verify-reproducible: ## Check that two builds in different directories are the same file.
	hack/verify-reproducible.sh '$(LDFLAGS)'

# Not part of verify: it builds two releases, one of them without the build cache.
.PHONY: verify-release
verify-release: ## Check that two releases of the same files are the same (10 minutes).
	hack/verify-release.sh

# Not part of verify: it needs the network, and what is found changes from day to day.
.PHONY: govulncheck
govulncheck: ## Look for known vulnerabilities (at vuln.go.dev, or GOVULNDB=mirror, or in the module golang.org/x/vulndb).
	hack/govulncheck.sh
