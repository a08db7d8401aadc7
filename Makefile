# The modules of the workspace, as package patterns.
PACKAGES := ./... ./cmd/mortise/... ./fencing/sqlexample/... ./bench/...
GOTEST := go run ./scripts/gotest
GOLANGCI := bin/golangci-lint-2.15.0

.DEFAULT_GOAL := help
.PHONY: help demo test check cover bench interop lint fmt tidy

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Run the demonstration: processes that contend, and one that is killed
	go run ./cmd/mortise demo

test: ## Run the tests that need nothing but Go, in half a minute
	@GOGC=1000 $(GOTEST) $(ARGS) $$(go list ./... | grep -vE '/tests/(server|simulation|cost)')

check: ## Run all tests under the race detector, and the linters, in a quarter of an hour; installs redis-server
	@scripts/need.sh redis cc
	@echo "== what computes, under the race detector"
	@$(GOTEST) -race -tags server -timeout 20m $(ARGS) $$(go list $(PACKAGES) | grep -vE '/tests/server|/cmd/mortise')
	@echo "== what waits for servers and processes, under the race detector"
	@$(GOTEST) -race -timeout 20m $(ARGS) ./tests/server/... ./cmd/mortise/...
	@echo "== costs, without the race detector"
	@$(GOTEST) $(ARGS) ./tests/cost
	@echo "== behavior on one CPU"
	@GOMAXPROCS=1 GOGC=1000 $(GOTEST) -count=1 $(ARGS) ./tests/behavior
	@echo "== linters"
	@$(MAKE) --no-print-directory lint

cover: ## Run all tests and show how much of each package they cover
	@scripts/need.sh redis cc
	go test -tags server -coverpkg=github.com/mortise-go/mortise/... -coverprofile=cover.out $(PACKAGES)
	go tool cover -func=cover.out | tail -1

bench: ## Compare with other locks on this machine, in about 15 minutes; the report goes to bench/out
	@scripts/need.sh redis
	go run ./bench $(ARGS)

interop: ## Run the tests against real Redisson; installs Java and Maven if they are missing
	@scripts/need.sh redis cc java maven
	@interop/run.sh

lint: $(GOLANGCI) ## Check formatting, vet, import arrows and a few linters
	$(GOLANGCI) run ./...
	cd cmd/mortise && ../../$(GOLANGCI) run ./...
	cd fencing/sqlexample && ../../$(GOLANGCI) run ./...
	cd bench && ../$(GOLANGCI) run ./...

fmt: $(GOLANGCI) ## Format the code
	$(GOLANGCI) fmt ./...
	cd cmd/mortise && ../../$(GOLANGCI) fmt ./...
	cd fencing/sqlexample && ../../$(GOLANGCI) fmt ./...
	cd bench && ../$(GOLANGCI) fmt ./...

tidy: ## Tidy the go.mod of each module
	go mod tidy
	scripts/tidy.sh cmd/mortise
	scripts/tidy.sh fencing/sqlexample
	scripts/tidy.sh bench -e # not every proxy has what tests of redsync import

$(GOLANGCI):
	GOWORK=off GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	mv bin/golangci-lint $@
