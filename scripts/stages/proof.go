package main

// proof is all there is. What is in the gate as well runs here under the race detector, or for longer.
var proof = []stage{
	{
		name: "library", shows: "every package, under the race detector", needs: "redis cc",
		tests: []goTest{{race: true, tags: "server,proof", stall: "10m"}},
	},
	{
		name: "behavior", shows: "all combinations, raced; one CPU", needs: "cc",
		tests: []goTest{
			{race: true, deep: true, stall: "10m", packages: []string{"./tests/behavior"}},
			{deep: true, stall: "10m", env: []string{"GOMAXPROCS=1"}, packages: []string{"./tests/behavior"}},
		},
	},
	{
		name: "model", shows: "the model of waiting, within wide limits",
		tests: []goTest{{deep: true, stall: "20m", packages: []string{"./internal/waiting"}}},
	},
	{
		name: "simulation", shows: "2,000 seeds; raced with a few", needs: "cc",
		sh:    "bin/gotest -stall 60m -- -count=1 -timeout=0 -run '^TestSimulation$' ./tests/simulation -args -seeds 2000",
		tests: []goTest{{race: true, stall: "20m", packages: []string{"./tests/simulation", "./tests/newkind"}}},
	},
	{
		name: "servers", shows: "real servers, failovers, demotions", needs: "redis cc",
		tests: []goTest{{race: true, stall: "10m", packages: []string{"./tests/server/...", "./tests/torture"}}},
	},
	{
		name: "modules", shows: "command, terminal, adapters, benchmarks", needs: "redis cc",
		tests: []goTest{
			{race: true, tags: "proof", stall: "10m", packages: []string{"./cmd/mortise/..."}},
			{race: true, tags: "proof", stall: "10m", packages: []string{"./analyzer/...", "./mortiseotel/...", "./mortiseprom/...", "./examples/...", "./fencing/sqlexample/...", "./bench/..."}},
		},
	},
	{
		name: "alerts", shows: "alerts in the engine of Prometheus", needs: "redis",
		sh: "cd mortiseprom/alertstest && GOWORK=off ../../bin/gotest -stall 10m -- -count=1 ./...",
	},
	{
		name: "browser", shows: "the dashboard in Chromium", needs: "redis chromium",
		sh: "cd tests/browser && GOWORK=off ../../bin/gotest -stall 10m -- -count=1 ./...",
	},
	{
		name: "cost", shows: "bytes, allocations, commands", needs: "redis",
		tests: []goTest{{stall: "10m", packages: []string{"./tests/cost"}}},
	},
	{
		name: "goals", shows: "goals counted as far as docs/guarantees.md says", needs: "redis",
		tests: []goTest{{deep: true, stall: "30m", packages: []string{"./tests/goals"}}},
	},
	{
		name: "redisson", shows: "all of interop, each Redisson", needs: "redis cc java maven", sh: "interop/run.sh",
		runs: []goTest{{tags: "interop", packages: []string{"./interop", "./bench/redisson"}}},
	},
	{name: "fuzz", shows: "each fuzz target for a while", needs: "redis", sh: "make --no-print-directory fuzz FUZZTIME=20s", quote: `^\d+ targets?,`},
	{name: "rehearsal", shows: "installing from the next tags", needs: "git", sh: "go run ./scripts/release rehearse"},
	{
		name: "torture", shows: "faults at random, planted bugs", needs: "redis cc",
		sh: "tests/torture/run.sh 20m", quote: `^(torture:|in all:|fair:|kills:|lost holds|holders whose)|seeds?, from`,
	},
	{name: "mutants", shows: "each mistake is noticed", needs: "redis", sh: "go run ./scripts/mutants", quote: `mutants were`},
}
