# The modules of the workspace, as package patterns.
PACKAGES := ./... ./cmd/mortise/... ./fencing/sqlexample/... ./examples/... ./analyzer/... ./bench/... ./mortiseotel/... ./mortiseprom/...
# Built and not run by go run, which dies of signals without passing them on.
STAGES := go build -o bin/stages ./scripts/stages && exec bin/stages
FUZZTIME ?= 10s
GOLANGCI := bin/golangci-lint-2.15.0
GORELEASER := bin/goreleaser-2.15.1

TIME := 30m

.DEFAULT_GOAL := help
.PHONY: help demo test gate proof fuzz cover mutants torture goals servers bench interop lint fmt tidy rehearse picture screens pages snapshot release

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Run the demonstration: processes that contend, and one that is killed
	go run ./cmd/mortise demo

test: ## Run the tests that need nothing but Go; ARGS="-run X ./tests/behavior" is for go test
	@$(STAGES) test $(ARGS)

gate: ## Run what each change must pass; installs git, redis-server, a C compiler, Java and Maven; ARGS=-list, ARGS="-only NAME,…"
	@export LINTER=$(GOLANGCI); $(STAGES) $(ARGS) gate

proof: ## Run all there is, for hours, and write docs/proof.md; installs Chromium, too; ARGS=-list, ARGS="-only NAME,…"
	@$(STAGES) $(ARGS) proof

rehearse: ## Install the command and build a program as users will do from the next tags
	@go run ./scripts/release rehearse

fuzz: ## Run each fuzz target for FUZZTIME, 10s by default; ARGS=-list names them, ARGS="-run X" chooses, ARGS="-inputs N" goes on
	@scripts/need.sh redis
	@go run ./scripts/fuzz -time $(FUZZTIME) $(ARGS) $(PACKAGES)

cover: ## Run all tests and show how much of each package they cover
	@scripts/need.sh redis cc
	go test -tags server -coverpkg=github.com/mortise-go/mortise/... -coverprofile=cover.out $(PACKAGES)
	go tool cover -func=cover.out | tail -1

mutants: ## Make each of the mistakes in scripts/mutants/list, one at a time: a test must notice it; ARGS can name some
	@scripts/need.sh redis
	@go run ./scripts/mutants $(ARGS)

torture: ## Break all that can be broken under processes and servers, for TIME, 30m by default, and show planted bugs
	@scripts/need.sh redis cc
	@tests/torture/run.sh $(TIME) $(ARGS)

goals: ## Count as far as the goals in docs/guarantees.md say, in about 15 minutes; ARGS="-run X" chooses
	@scripts/need.sh redis
	go test -count=1 -timeout=0 -v $(ARGS) ./tests/goals -args -deep

servers: ## Run the tests that need a server on servers of many versions, and write the table of docs/servers.md, in about an hour
	@scripts/need.sh redis cc pip
	go run ./scripts/servers run $(SERVERS)

bench: ## Compare with other locks on this machine, in about 20 minutes; the report goes to bench/out
	@scripts/need.sh redis
	go run ./bench $(ARGS)

interop: ## Run the tests against real Redisson; installs Java and Maven if they are missing; ARGS=-walk takes each release whose scripts differ, in an hour
	@scripts/need.sh redis cc java maven
	@interop/run.sh $(ARGS)

lint: $(GOLANGCI) ## Check formatting, vet, import arrows and a few linters
	$(GOLANGCI) run $(PACKAGES)
	cd mortiseprom/alertstest && GOWORK=off ../../$(GOLANGCI) run ./...
	cd tests/browser && GOWORK=off ../../$(GOLANGCI) run ./...

fmt: $(GOLANGCI) ## Format the code
	$(GOLANGCI) fmt $(PACKAGES)
	cd mortiseprom/alertstest && ../../$(GOLANGCI) fmt ./...
	cd tests/browser && ../../$(GOLANGCI) fmt ./...

tidy: ## Tidy the go.mod of each module
	go mod tidy
	scripts/tidy.sh cmd/mortise
	scripts/tidy.sh fencing/sqlexample
	scripts/tidy.sh examples
	cd analyzer && go mod tidy
	scripts/tidy.sh mortiseotel
	scripts/tidy.sh mortiseprom
	cd mortiseprom/alertstest && GOWORK=off go mod tidy
	cd tests/browser && GOWORK=off go mod tidy
	scripts/tidy.sh bench -e # not every proxy has what tests of redsync import

picture: ## Draw the pictures of the documents anew, from a run of the demonstration and of mortise top
	go test -tags proof ./cmd/mortise/internal/demo -count=1 -run '^TestPicture$$' -args -picture $(CURDIR)/docs/demo.svg
	go test -tags proof ./cmd/mortise -count=1 -run '^TestTopPicture$$' -args -picture $(CURDIR)/docs/screens/top.svg

screens: ## Take the pictures of the dashboard anew, in Chromium
	@scripts/need.sh chromium
	cd tests/browser && GOWORK=off go test -count=1 -run '^TestScreens$$' . -args -screens

pages: ## Write the manual pages and the completions of the command to bin/pages
	rm -rf bin/pages
	go test ./cmd/mortise -count=1 -run '^TestPages$$' -args -pages $(CURDIR)/bin/pages

snapshot: $(GORELEASER) ## Make the files of a release, in dist, without releasing anything
	$(GORELEASER) check scripts/release/goreleaser.yaml
	$(GORELEASER) release --config scripts/release/goreleaser.yaml --snapshot --clean

release: $(GORELEASER) ## Publish the files of a release whose tag is checked out, TAG; CI does this
	GORELEASER_CURRENT_TAG=$(TAG) $(GORELEASER) release --config scripts/release/goreleaser.yaml --clean

$(GOLANGCI):
	GOWORK=off GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv bin/golangci-lint $@

$(GORELEASER):
	GOWORK=off GOBIN=$(CURDIR)/bin go install github.com/goreleaser/goreleaser/v2@v2.15.1
	mv bin/goreleaser $@
