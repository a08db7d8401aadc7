package main

// handOvers are the files of tests/behavior whose tests cross every way in which a lock, a permit or a turn passes
// from one goroutine to another.
var handOvers = []string{
	"kinds", "turn", "turns", "turn_doubt", "turn_entry", "turn_failed", "turn_spent", "turn_stale", "relay", "rivals", "hold", "withdraw",
	"fairlock", "fairlock_crowd", "fencedhandoff", "lateanswer", "unlock", "close", "multilock_close", "permitsemaphore", "permitsemaphore_wait", "semaphore_wait", "herd", "races",
}

// core are the tests whose trials interop/core_test.go chooses from.
const core = "^Test(CoreIsKnown|Lock|Kinds|FairLock|FencedLock|SpinLock|RWLock|MultiLock|Redlock|GroupLock|Semaphore|PermitSemaphore|CountDownLatch)$"

var gate = []stage{
	{
		name: "form", shows: "formatting, no built files, checksums of modules", needs: "git",
		sh: `unformatted=$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ ! -e "$f" ] || echo "$f"; done | xargs gofmt -l)
[ -z "$unformatted" ] || { echo "not formatted: $unformatted (make fmt formats all)"; exit 1; }
built=$(git ls-files -z | xargs -0 sh -c 'for f; do [ ! -e "$f" ] || find "$f" -size +1000k; done' _)
[ -z "$built" ] || { echo "larger than a source is, and in the repository: $built (git rm --cached)"; exit 1; }
go mod verify`,
	},
	{name: "lint", shows: "vet, linters, import arrows", sh: "make --no-print-directory lint"},
	{
		name: "test", shows: "what needs nothing but Go: virtual time, documents, mutants apply",
		tests: []goTest{{stall: "1m"}},
	},
	{
		name: "race", shows: "what has goroutines of its own, and every hand-off, under the race detector", needs: "cc",
		tests: []goTest{
			{race: true, packages: []string{"./tests/behavior"}, files: handOvers},
			{race: true, packages: []string{
				"./internal/lease", "./internal/waiting", "./internal/permits", "./internal/watchdog", "./internal/hub", "./internal/pipeline", "./internal/doubt", "./internal/newest",
				"./internal/canary", "./driver/...", "./memredis", "./watch", "./mortisetest", "./dashboard",
			}},
		},
	},
	{
		name: "scripts", shows: "scripts do the same on redis-server as on the embedded Redis", needs: "redis",
		tests: []goTest{
			{tags: "server", packages: []string{"./internal/script"}, skip: "/^memredis$|/./^memredis$|/././^memredis$"},
			{tags: "server", packages: []string{"./internal/gentle"}, run: "^TestSearch(OfARealServer|WithFewRights|OfACluster)$"},
		},
	},
	{
		name: "drivers", shows: "what both drivers must do, on redis-server, and what a lock allocates through them", needs: "redis",
		tests: []goTest{
			{packages: []string{"./tests/server/goredis", "./tests/server/rueidis"}, run: "^TestDriver$/^(close|single|faults|cluster)$"},
			{packages: []string{"./tests/cost"}, run: "^TestPairCost$"},
		},
	},
	{
		name: "command", shows: "the command's sessions, adapters, examples", needs: "redis",
		tests: []goTest{{
			flags:    []string{"-parallel", "6"}, // sessions of the command wait more than they compute
			packages: []string{"./cmd/mortise/...", "./analyzer/...", "./mortiseotel", "./mortiseprom", "./examples/...", "./fencing/sqlexample"},
		}},
	},
	{
		name: "redisson", shows: "each kind beside the newest Redisson, in both directions", needs: "redis cc java maven", sh: "interop/run.sh -core -run '" + core + "'",
		runs: []goTest{{tags: "interop", run: core, packages: []string{"./interop"}}},
	},
	{
		name: "elsewhere", shows: "all modules compile on macOS and Windows",
		sh: `for os in darwin windows; do
  echo "$os"
  GOOS=$os GOARCH=arm64 go build . ./connect ./driver/goredis ./driver/rueidis ./dashboard ./doctor ./fencing ./memredis ./mortisetest ./watch \
    ./cmd/mortise ./examples/... ./analyzer/... ./mortiseotel ./mortiseprom
done`,
	},
}
