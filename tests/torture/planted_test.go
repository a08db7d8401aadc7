package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// planted is a mistake that is put into the clients, and that must not go unnoticed.
type planted struct {
	name     string
	file     string // of the module
	old, new string
	nemesis  string
	verdict  string // part of what is blamed
	load     string // a kind that there must be
	kind     string // of deployment; a single server if empty
}

var plantedBugs = []planted{
	{
		name: "a release that does not look at the owner", file: "internal/script/lua/lock_release.lua",
		old: "if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then", new: "if redis.call('del', KEYS[1]) == 0 then",
		nemesis: "lost-replies", verdict: "held by too many",
	},
	{
		name: "a hold that is valid for longer than its lease", file: "internal/terms/options.go",
		old: "func (o *Options) Trust(lease time.Duration) time.Duration {", new: "func (o *Options) Trust(lease time.Duration) time.Duration {\n\tlease *= 3",
		nemesis: "freeze-holder", verdict: "held by too many",
	},
	{
		name: "a fencing token that is given to two holders", file: "internal/script/lua/fenced.lua",
		old: "redis.pcall('incr', KEYS[2])", new: "redis.pcall('incrby', KEYS[2], redis.call('exists', KEYS[2]) == 1 and 0 or 1)",
		nemesis: "freeze-waiter", verdict: "which client",
	},
	{
		name: "a fencing token that goes back", file: "internal/lease/hold.go",
		old: "return h.of.FencingToken()", new: "return h.of.FencingToken() ^ 1",
		nemesis: "delay", verdict: "it went back",
	},
	{
		name: "a permit more than there are", file: "internal/script/lua/semaphore_acquire.lua",
		old: "available - n < left", new: "available - n < left - 1",
		nemesis: "freeze-waiter", load: "semaphore", verdict: "places:places: held by too many",
	},
	{
		name: "a latch that counts twice", file: "internal/script/lua/latch_count_down.lua",
		old: "math.max(n - 1, 0)", new: "math.max(n - 2, 0)",
		nemesis: "delay", load: "latch", verdict: "was to open after",
	},
	{
		name: "a latch that forgets to count", file: "internal/script/lua/latch_count_down.lua",
		old: "change('decr', number)", new: "change('incrby', number, 0)",
		nemesis: "delay", load: "latch", verdict: "and was closed for",
	},
	{
		name: "a barrier that lets the last but one pass", file: "internal/script/lua/barrier_await.lua",
		old: "if arrived + 1 >= tonumber(ARGV[6])", new: "if arrived + 2 >= tonumber(ARGV[6])",
		nemesis: "delay", load: "barrier", verdict: "were there",
	},
	{
		name: "a double barrier that opens to a party that asks twice", file: "internal/script/lua/double_enter.lua",
		old: "redis.call('hset', barrier, party, now + lease)\nelseif", new: "redis.call('hset', barrier, party, now + lease)\n  open = 1\nelseif",
		nemesis: "delay", load: "double", verdict: "were there",
	},
	{
		name: "a Redlock on less than a majority", file: "internal/composite/quorum.go",
		old: "len(locks)/2 + 1", new: "len(locks) / 2",
		nemesis: "freeze-waiter", kind: "several", verdict: "held by too many",
	},
}

// choosePlanted returns all planted bugs, three by seed, or those whose names contain what.
func choosePlanted(what string, seed uint64) []planted {
	chosen := slices.Clone(plantedBugs)
	switch what {
	case "all":
	case "three":
		rand.New(rand.NewPCG(seed, 3)).Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:3]
	default:
		chosen = slices.DeleteFunc(chosen, func(b planted) bool { return !strings.Contains(b.name, what) })
	}
	return chosen
}

// findPlanted runs clients with a planted bug until a round notices it. It fails if none does.
func findPlanted(t *testing.T, b planted, seed uint64) {
	t.Helper()
	program := b.build(t)
	n := nemeses[slices.IndexFunc(nemeses, func(n *nemesis) bool { return n.name == b.nemesis })]
	for i := range uint64(6) {
		p := plan{
			seed: seed + i, nemesis: n, kind: cmp.Or(b.kind, "single"), driver: []string{"goredis", "rueidis"}[i%2],
			program: program, storm: 6 * time.Second, brief: true, load: b.load,
		}
		r := run(t, p)
		r.bad = append(r.bad, r.overdue()...)
		if at := slices.IndexFunc(r.bad, func(s string) bool { return strings.Contains(s, b.verdict) }); at >= 0 {
			fmt.Printf("ok   planted: %s: found in round %d by %s, seed %d: %.200s\n", b.name, i+1, n.name, p.seed, r.bad[at])
			return
		}
	}
	t.Errorf("planted, and not found: %s", b.name)
	fmt.Printf("FAIL planted: %s: not found\n", b.name)
}

// build compiles the clients with the bug.
func (b planted) build(t *testing.T) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", "..", b.file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), b.old); n != 1 {
		t.Fatalf("%s has %q %d times, want once: plant the bug in another way", b.file, b.old, n)
	}
	dir := t.TempDir()
	mutant, overlay, program := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "client")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutant}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{mutant: []byte(strings.Replace(string(text), b.old, b.new, 1)), overlay: list} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build with a planted bug: %v\n%s", err, out)
	}
	return program
}
