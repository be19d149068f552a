# Everything here works on a fresh machine with Go, make and git. Postgres and Redis are found, or installed where that
# needs no password, by `ajo stack` and `ajo dev`; the linters are built from pinned versions.

.DEFAULT_GOAL := help

# The packages that test and lint look at: make test PKG=./ledger/...
PKG ?= ./...

# CI tests with the race detector, which needs a C compiler and twice the time; RACE=-race does so anywhere.
RACE = $(if $(CI),$(shell [ "$$(go env CGO_ENABLED)" = 1 ] && echo -race))
# A process that was built with the race detector waits a second at its end, for reports that other threads still write.
GORACE ?= atexit_sleep_ms=50
# -trimpath lets all clones, make build and what tests build share what is compiled; make lint vets all. With the race detector
# nothing is shared: there, what only a debugger reads would cost the compiler a seventh of its time, and hashing a password takes
# three times as long, though argon2 with one lane shares nothing. What the tests build without it takes these flags back.
TEST_FLAGS = GOFLAGS="$(GOFLAGS) -trimpath$(if $(RACE), -gcflags=all=-dwarf=false -gcflags=golang.org/x/crypto/argon2=-race=false)" GORACE="$(GORACE)"
# The compiler takes a fifth less of the processor, and tests a little less, when Go's collector runs less often. What the
# tests start has an environment of its own.
build test: export GOGC := $(or $(GOGC),300)
# The tests that take longest begin first, so that they are not what is left at the end. Tests wait more than they compute:
# three packages at once keep two cores busy. Each run draws the order of a package's tests anew; SHUFFLE=<seed>, which a package
# that fails prints, repeats it.
SHUFFLE ?= on
FIRST = $(if $(filter ./...,$(PKG)),./internal/e2e ./api ./workers ./bench)

# A module file of its own: staticcheck's dependencies stay out of the program's.
STATICCHECK = go tool -modfile=internal/tools/go.mod staticcheck

# Runs go test: one line for each package, with its time and, where it failed, its seed; what failed tests printed, when they fail
# and again at the end; and the ten tests that took longest.
TOOK = .ajo/took.json
GOTESTSUM = bin/gotestsum --format pkgname-and-test-fails --hide-summary skipped --jsonfile-timing-events $(TOOK) \
	--post-run-command "bin/gotestsum tool slowest --num 10 --jsonfile $(TOOK)" --

# A clone that belongs to another user, as a directory mounted into a container does, is one that git, and so go build,
# refuses to read unless it is told that this one is meant.
ifndef GIT_CONFIG_COUNT
export GIT_CONFIG_COUNT := 1
export GIT_CONFIG_KEY_0 := safe.directory
export GIT_CONFIG_VALUE_0 := $(CURDIR)
endif

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: go
go:
	@command -v go >/dev/null || { echo "go is missing: install Go $$(awk '$$1 == "go" { print $$2 }' go.mod) or later, from https://go.dev/dl" >&2; exit 1; }

.PHONY: build
build: go ## Build bin/ajo
	go build -trimpath -o bin/ajo ./cmd/ajo

.PHONY: gotestsum
gotestsum: go
	go -C internal/tools build -trimpath -o ../../bin/gotestsum gotest.tools/gotestsum

.PHONY: run
run: build ## Run everything on this machine: databases, fake bank, API, workers
	bin/ajo dev

.PHONY: reset
reset: build ## Remove all local data (.ajo)
	bin/ajo reset

.PHONY: test
test: build gotestsum ## Run all tests beside a Postgres and a Redis of their own; CI=true or RACE=-race: with the race detector
	@[ -n "$(RACE)" ] || echo "testing without the race detector$(if $(CI),: there is no C compiler)" >&2
	@for i in node python3; do command -v $$i >/dev/null || echo "no $$i: its programs in docs/examples are not tested" >&2; done
	@for i in bash curl jq; do command -v $$i >/dev/null || echo "no $$i: the commands of docs/guide.md are not tested" >&2; done
	$(TEST_FLAGS) bin/ajo stack -- $(GOTESTSUM) $(RACE) -vet=off -shuffle=$(SHUFFLE) -p 3 -timeout 25m $(FIRST) $(PKG)
	@if [ "$(PKG)" = ./... ]; then GOFLAGS="$(GOFLAGS) -trimpath" go -C internal/tools test -count=1 ./mutate; fi
	@echo "left to targets of their own: the provoked alerts (make test-rules), most rows of the benchmarks (make test-bench), the image's content (make image-check, root), the restore of a moment where pgBackRest is not installed (make drill), a standby that was behind (make failover), Patroni (make failover-patroni)"

AJO_TEST_LIST_ROWS ?= 1000000

.PHONY: test-lists
test-lists: build ## Try all filters of all lists on a history of AJO_TEST_LIST_ROWS rows: none may take 100 ms
	AJO_TEST_LIST_ROWS=$(AJO_TEST_LIST_ROWS) bin/ajo stack -- go test -timeout 60m -count=1 -v -run TestFilteredListsReadABoundedPart ./api

.PHONY: test-migrations
test-migrations: build ## Run the examples of migrations beside payments, on a book of AJO_TEST_LIST_ROWS rows, and print how long posting stopped
	AJO_TEST_LIST_ROWS=$(AJO_TEST_LIST_ROWS) bin/ajo stack -- go test -timeout 60m -count=1 -v -run '^TestMigrationsBesidePayments$$' ./internal/e2e

# How long each fuzz target runs, and how many requests the contract fuzzer makes. AJO_SEED repeats a run of the latter.
FUZZTIME ?= 30s
AJO_FUZZ_REQUESTS ?= 100000

.PHONY: fuzz
fuzz: go ## Run every native fuzz target for FUZZTIME (30s), one after the other
	@grep -rhoE --include='*_test.go' --exclude-dir=.git -H '^func Fuzz[A-Za-z]+' . | sed 's|/[^/]*:func |:|' | sort | \
	while IFS=: read -r dir target; do \
		echo "$$dir $$target"; \
		go test "$$dir" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) || exit 1; \
	done

.PHONY: fuzz-contract
fuzz-contract: build ## Hold the service to its OpenAPI document with AJO_FUZZ_REQUESTS (100000) good and broken requests
	AJO_FUZZ_REQUESTS=$(AJO_FUZZ_REQUESTS) bin/ajo stack -- go test ./api -run '^TestContractFuzz$$' -v -timeout 30m

AJO_TIMING ?= 1000

.PHONY: timing
timing: build ## Compare how long AJO_TIMING (1000) calls with known and with unknown e-mails take; AJO_SEED draws another order
	AJO_TIMING=$(AJO_TIMING) bin/ajo stack -- go test ./api -run '^TestKnownEmailsTakeTheSameTime$$' -count 1 -v -timeout 15m

AJO_CHAOS_PAYOUTS ?= 1000

.PHONY: chaos-settle
chaos-settle: build ## Pay out AJO_CHAOS_PAYOUTS (1000) times while the bank errs and workers are killed; AJO_SEED repeats a run
	AJO_CHAOS_PAYOUTS=$(AJO_CHAOS_PAYOUTS) bin/ajo stack -- go test ./internal/e2e -run '^TestChaosOfPayouts$$' -count 1 -v -timeout 30m

AJO_APPROVALS ?= 1000

.PHONY: test-approvals
test-approvals: build ## Have AJO_APPROVALS (1000) payouts approved, rejected and forgotten at random: none may reach the bank without its approvals
	AJO_APPROVALS=$(AJO_APPROVALS) bin/ajo stack -- go test ./internal/transfer -run '^TestNoPayoutWithoutItsApproval$$' -count 1 -v -timeout 30m

AJO_CHECKS ?= 1000

.PHONY: test-properties
test-properties: build ## Try each property of the books AJO_CHECKS (1000) times, with drawn payments, holds, limits and fees (make test: 20)
	bin/ajo stack -- go test ./ledger ./internal/transfer ./internal/statement -count 1 -timeout 60m -rapid.checks=$(AJO_CHECKS)

AJO_WALKS ?= 100

.PHONY: test-walk
test-walk: build ## Draw AJO_WALKS (100) histories of payments, payouts, contradictions of the bank and operators' decisions, and hold the books against the bank's (make test: 1); AJO_SEED repeats a run
	bin/ajo stack -- go test ./internal/invariant -run '^TestWalk$$' -count 1 -timeout 60m -rapid.checks=$(AJO_WALKS) -rapid.seed=$(or $(AJO_SEED),0) -rapid.steps=80

AJO_HELD_RUNS ?= 50

.PHONY: test-held
test-held: build ## Draw 500 settlements, book transfers and refunds at once against holds, AJO_HELD_RUNS (50) times: nothing that is held may leave
	AJO_HELD_RUNS=$(AJO_HELD_RUNS) bin/ajo stack -- go test ./internal/transfer -run '^TestHeldMoneyNeverLeaves$$' -count 1 -v -timeout 60m

AJO_KILLS ?= 50

.PHONY: chaos-points
chaos-points: build ## Kill the processes AJO_KILLS (50) times at each failpoint, and check that all work ends right; AJO_SEED repeats a run
	AJO_KILLS=$(AJO_KILLS) bin/ajo stack -- go test ./internal/e2e -run '^TestKilledAtEachPoint$$' -count 1 -v -parallel 10 -timeout 2h

AJO_FAILOVERS ?= 10

.PHONY: failover
failover: build ## Kill Postgres' primary AJO_FAILOVERS (10) times under load, promote its standby, and print how long each step was away; and once with a standby that is behind
	AJO_FAILOVERS=$(AJO_FAILOVERS) bin/ajo stack -- go test ./internal/e2e -run '^TestPrimaryDies$$|^TestStandbyThatWasBehind$$' -count 1 -v -timeout 30m

.PHONY: failover-patroni
failover-patroni: build ## The same with Patroni and etcd as deploy/postgres/patroni.yaml has them, which promote by themselves (AJO_FAILOVERS)
	AJO_PATRONI=1 AJO_FAILOVERS=$(AJO_FAILOVERS) bin/ajo stack --also patroni,etcd -- go test ./internal/e2e -run '^TestPatroniReplacesThePrimary$$' -count 1 -v -timeout 60m

AJO_DRILL_PAYMENTS ?= 2000

.PHONY: drill
drill: build ## Destroy the books, and restore them to the moment before from a backup and AJO_DRILL_PAYMENTS (2000) payments' WAL (pgBackRest)
	AJO_DRILL_PAYMENTS=$(AJO_DRILL_PAYMENTS) bin/ajo stack --also pgbackrest -- go test ./internal/e2e -run '^TestPointInTime$$' -count 1 -v -timeout 30m

# What make bench measures: ROWS=spread,hot runs only some rows, PROFILE=1 writes profiles beside the result, BENCH_TOOK is how
# long a row's load lasts, BENCH_OUT the result's name, BENCH_FULL=1 takes a book of 10,000,000 entries, BENCH_RATE is the payments
# a second of the latency rows when the rates themselves are not measured in the run.
BENCH_TOOK ?= 10s
BENCH_FLAGS = -took $(BENCH_TOOK) $(if $(ROWS),-rows $(ROWS)) $(if $(PROFILE),-profile) $(if $(BENCH_FULL),-full) $(if $(BENCH_RATE),-rate $(BENCH_RATE)) $(if $(BENCH_OUT),-out $(BENCH_OUT))

.PHONY: bench
bench: build ## Measure the goals of docs/performance.md; ROWS=… for some, PROFILE=1, BENCH_FULL=1
	go build -o bin/ajo-bench ./bench
	bin/ajo-bench $(BENCH_FLAGS)

.PHONY: bench-scale
bench-scale: build ## Measure what grows: in a book of a million entries with random ids (BENCH_FULL=1: ten), BENCH_DUE (1000000) events after FLUSHALL, confirming, reconciling, WAL and disk
	go build -o bin/ajo-bench ./bench
	bin/ajo-bench -scale -due $(or $(BENCH_DUE),1000000) $(BENCH_FLAGS)

AJO_SOAK_MINUTES ?= 30

.PHONY: soak
soak: build ## Let payments come at 60 % of the chain's rate for AJO_SOAK_MINUTES (30) in a filled book, and plot memory, latency, dead rows and disk
	go build -o bin/ajo-bench ./bench
	bin/ajo-bench -scale -rows soak -soak $(AJO_SOAK_MINUTES)m $(if $(BENCH_OUT),-out $(BENCH_OUT))

.PHONY: test-bench
test-bench: build ## Try every row of the benchmarks for a moment, on small books (make test: some)
	AJO_BENCH_ROWS=all bin/ajo stack -- go test ./bench -run '^TestEveryRow$$' -count=1 -timeout 20m

.PHONY: bench-fair
bench-fair: build ## Measure one tenant's work of each kind beside AJO_FAIR_ITEMS (50000) of another's, at slow endpoints and a slow bank (AJO_FAIR_BANK_MS)
	AJO_FAIR_ITEMS=$(or $(AJO_FAIR_ITEMS),50000) AJO_FAIR_SAMPLES=$(or $(AJO_FAIR_SAMPLES),20) AJO_FAIR_EVERY_MS=1000 AJO_FAIR_PLACES=0 \
		bin/ajo stack -- go test ./workers -run TestQuietTenant -v -count=1 -timeout 30m

.PHONY: bench-compare
bench-compare: go ## Print two results of make bench side by side: A=name B=name, from bench/results
	go run ./bench compare $(A) $(B)

AJO_CHAOS_MINUTES ?= 10

.PHONY: chaos
chaos: build ## Break everything for AJO_CHAOS_MINUTES (10) under load, then check that nothing is lost or twice; AJO_SEED repeats a run
	AJO_CHAOS_MINUTES=$(AJO_CHAOS_MINUTES) bin/ajo stack -- go test ./internal/e2e -run '^TestChaos$$' -count 1 -v -timeout 2h

.PHONY: chaos-clients
chaos-clients: build ## Payments beside 1,000 slow clients of each kind and 10,000 broken requests
	AJO_SLOW_CLIENTS=1000 AJO_BROKEN_BODIES=10000 AJO_CLIENT_RATE=200 AJO_CLIENT_TIME=25 \
		bin/ajo stack -- go test ./internal/e2e -run '^TestSlowAndBrokenClients$$' -count 1 -v -timeout 15m

.PHONY: lint
lint: go ## Check formatting (gofumpt), go vet, staticcheck, errcheck, and the OpenAPI document
	@unformatted=$$(go tool gofumpt -l .) || exit 1; \
		[ -z "$$unformatted" ] || { echo "not formatted; run make format:"; echo "$$unformatted"; exit 1; } >&2
	go vet $(PKG)
	$(STATICCHECK) -checks inherit,ST1000 $(PKG)
	go tool errcheck -exclude .errcheck-exclude $(PKG)
	go -C internal/tools run ./openapilint ../../.openapi-lint.yaml ../../api/openapi.yaml

.PHONY: check-deploy
check-deploy: go ## Check deploy/ offline: kustomizations against the published schemas, compose.yaml, and that mistakes are found
	go -C internal/tools/deploycheck test -count=1 ./...

.PHONY: image-check
image-check: build ## Run what the image holds on a read-only root, as its user (needs root); prints size and start time
	AJO_IMAGE_CHECK=1 bin/ajo stack -- go test ./internal/e2e -run '^TestImageRoot$$' -count 1 -v -timeout 10m

AJO_SCALE_PAYMENTS ?= 6000

.PHONY: scale
scale: build ## Work off AJO_SCALE_PAYMENTS (6000) payments with one, two and four workers
	AJO_SCALE_PAYMENTS=$(AJO_SCALE_PAYMENTS) bin/ajo stack -- go test ./internal/e2e -run '^TestWorkersShareTheWork$$' -count 1 -v -timeout 20m

# Prometheus' own promtool. Without one, Debian's package is unpacked into bin/, not installed: it would start a server.
AJO_PROMTOOL ?= $(or $(shell command -v promtool),$(CURDIR)/bin/promtool)

.PHONY: test-rules
test-rules: build ## Test the Prometheus rules with promtool, then provoke their alerts with the real binary
	@[ -x $(AJO_PROMTOOL) ] || { \
		echo "getting promtool"; rm -rf .ajo/promtool; mkdir -p .ajo/promtool; cd .ajo/promtool; \
		root=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
		apt-get -q download prometheus || { $$root apt-get -q update && apt-get -q download prometheus; } && \
		dpkg-deb -x prometheus_*.deb . && mv usr/bin/promtool $(AJO_PROMTOOL) && cd .. && rm -r promtool; \
	} >&2
	$(AJO_PROMTOOL) test rules deploy/prometheus/rules_test.yaml
	AJO_PROMTOOL=$(AJO_PROMTOOL) bin/ajo stack -- go test ./internal/e2e -run '^TestAlerts' -count 1 -v

AJO_MUTANTS ?= 100
AJO_MUTANT_MINUTES ?= 0

.PHONY: mutate
mutate: build ## Make AJO_MUTANTS (100; 0: all) small mistakes in the code, one at a time, and see that the tests that cover the line notice; ONLY=path (or an expression of paths and functions) or KIND=lock, scope, state, money or boundary for some, AJO_SEED draws the same, AJO_MUTANT_MINUTES ends it early
	bin/ajo stack -- go -C internal/tools run ./mutate -root ../.. -n $(AJO_MUTANTS) -seed $(or $(AJO_SEED),0) -minutes $(AJO_MUTANT_MINUTES) -jobs 2 $(if $(ONLY),-only '$(ONLY)') $(if $(KIND),-kind $(KIND))

# Chromium is Debian's; elsewhere, name another by AJO_CHROMIUM. The pictures go to .ajo/web.
AJO_CHROMIUM ?= /usr/bin/chromium

.PHONY: test-web
test-web: build ## Try the dashboard and the console in Chromium: what people do, accessibility, phones, the keyboard; pictures in .ajo/web (needs node 20)
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 20 or later" >&2; exit 1; }
	@[ -x $(AJO_CHROMIUM) ] || { \
		echo "installing chromium"; root=$$([ "$$(id -u)" = 0 ] || echo "sudo -n"); \
		get="$$root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120"; \
		packages="chromium fonts-dejavu-core"; \
		$$get install --no-install-recommends $$packages || { $$get update && $$get install --no-install-recommends $$packages; }; \
	} >&2
	npm --prefix internal/dashboard/web ci --no-audit --no-fund
	rm -rf .ajo/web
	AJO_CHROMIUM=$(AJO_CHROMIUM) npm --prefix internal/dashboard/web test

.PHONY: format
format: go ## Format all Go files
	go tool gofumpt -l -w .

.PHONY: generate
generate: go ## Write generated files anew
	go generate ./...

.PHONY: check-generated
check-generated: generate ## Fail when a generated file is not current (or anything else is uncommitted)
	git --no-pager diff --exit-code
	@left=$$(git ls-files --others --exclude-standard) || exit 1; \
		[ -z "$$left" ] || { echo "not committed:"; echo "$$left"; exit 1; } >&2
