package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/bench/faults/contender"
)

// TestMain lets the test's program be a worker, which knows the planted system as well.
func TestMain(m *testing.M) {
	contender.Systems = append(contender.Systems, planted)
	if len(os.Args) == 2 && os.Args[1] == "worker" {
		main()
		return
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise tests only take longer
	os.Exit(m.Run())
}

// planted does all wrong: it counts a repeated request twice, waits for messages only, never tells a
// holder anything, releases what others hold, gives its tokens at random, asks no replica, and its
// fair lock serves the last first.
var planted = &contender.System{
	Name:         "planted",
	Key:          func(name string) string { return name },
	Subscribes:   true,
	Reenters:     true,
	Fenced:       true,
	Fair:         true,
	Acknowledges: true,
	Open: func(_ context.Context, c contender.Config) (contender.Client, error) {
		return &plantedClient{goredis.NewClient(&goredis.Options{Addr: c.Addr}), c}, nil
	},
	Refused: func(err error) bool { return errors.Is(err, context.DeadlineExceeded) },
	Gone:    func(error) bool { return false },
}

type plantedClient struct {
	redis  *goredis.Client
	config contender.Config
}

func (c *plantedClient) Close() { _ = c.redis.Close() }

var plantedAcquire = goredis.NewScript(`
if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return redis.call('pttl', KEYS[1]) end
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return -1`)

var plantedRelease = goredis.NewScript(`
for _, owner in ipairs(redis.call('hkeys', KEYS[1])) do
	if redis.call('hincrby', KEYS[1], owner, -1) <= 0 then redis.call('del', KEYS[1]) end
end
return redis.call('publish', 'free:' .. KEYS[1], '')`)

func (c *plantedClient) Lock(ctx context.Context, name string, wait time.Duration) (contender.Hold, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	owner := rand.Text()
	if c.config.Fair {
		return c.lockFair(ctx, name, owner)
	}
	h := &plantedHold{c, name, owner}
	if ttl, err := h.acquire(ctx); err != nil || ttl < 0 {
		return h, err
	}
	free := c.redis.Subscribe(ctx, "free:"+name)
	defer free.Close()
	for {
		ttl, err := h.acquire(ctx)
		if err != nil || ttl < 0 {
			return h, err
		}
		timer := time.NewTimer(ttl)
		select {
		case <-free.Channel():
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// plantedWaiters are the waiters of this process for its fair lock.
var plantedWaiters struct {
	sync.Mutex
	all []string
}

func (c *plantedClient) lockFair(ctx context.Context, name, owner string) (contender.Hold, error) {
	h := &plantedHold{c, name, owner}
	if ttl, err := h.acquire(ctx); err != nil || ttl < 0 {
		return h, err
	}
	w := &plantedWaiters
	w.Lock()
	w.all = append(w.all, owner)
	w.Unlock()
	for c.redis.RPush(ctx, "redisson_lock_queue:{"+name+"}", owner); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		w.Lock()
		last := len(w.all) - 1
		if w.all[last] == owner {
			if ttl, err := h.acquire(ctx); err != nil || ttl < 0 {
				w.all = w.all[:last]
				w.Unlock()
				return h, err
			}
		}
		w.Unlock()
	}
	return nil, ctx.Err()
}

type plantedHold struct {
	client      *plantedClient
	name, owner string
}

// acquire returns the TTL of the other owner's lock, or a negative one.
func (h *plantedHold) acquire(ctx context.Context) (time.Duration, error) {
	lease := h.client.config.Lease
	if lease == 0 {
		lease = time.Second
	}
	ms, err := plantedAcquire.Run(ctx, h.client.redis, []string{h.name}, h.owner, lease.Milliseconds()).Int64()
	return time.Duration(ms) * time.Millisecond, err
}

func (h *plantedHold) Check() error          { return nil }
func (h *plantedHold) Lost() <-chan struct{} { return nil }
func (h *plantedHold) Token() int64          { return 7 }

func (h *plantedHold) Unlock() error {
	return plantedRelease.Run(context.Background(), h.client.redis, []string{h.name}).Err()
}

func (h *plantedHold) Again() (contender.Hold, error) {
	_, err := h.acquire(context.Background())
	return h, err
}

// What each row must say of the planted system, by its case.
var red = map[string]map[string]string{
	"r1": {
		frozenBefore:  "accepted: an update is lost; its unlock says nothing",
		frozenBetween: "accepted: an update is lost; its unlock says nothing",
		frozenFenced:  "accepted: an update is lost; its unlock says nothing",
	},
	"r3": {
		"acquire":                 "success, with 2 levels in Redis instead of 1",
		"unlock":                  "success",
		"re-enter":                "success, with 3 levels in Redis instead of 2",
		"unlock the inner of two": "success, with 0 levels in Redis instead of 1",
	},
	"r4": {
		"not cut": "acquired",
		"cut":     "acquired when the time of the lease that was released was over",
	},
	"r8": {
		"the nearer of two replicas takes over":      "two holders",
		"the farther of two replicas takes over":     "two holders",
		"a replica that receives nothing takes over": "two holders",
	},
	"r10": {
		"restart without persistence": "not told",
		"DEL of the key":              "not told",
		"FLUSHALL":                    "not told",
	},
	"r13": {
		"nobody dies":                                   "out of order",
		"the first dies":                                "out of order",
		"three die, the first among them":               "out of order",
		"the first dies; all settings are the defaults": "out of order",
	},
}

// Every row sees what the planted system does wrong.
func TestRowsSeeWhatIsWrong(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := choice{rows: rows[:0:0], systems: []*contender.System{planted}, n: 1, lease: time.Second, seed: 1, say: t.Logf}
			c.rows = append(c.rows, row)
			r, err := c.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Results) != len(red[row.name]) {
				t.Errorf("%d cases, want %d", len(r.Results), len(red[row.name]))
			}
			for _, res := range r.Results {
				want := red[row.name][res.Case]
				if res.Hit != 1 || len(res.Said) != 1 || !strings.HasPrefix(saidText(res.Said), "1 "+want) {
					t.Errorf("%s: %d hit, it says %q, want %q", res.Case, res.Hit, saidText(res.Said), want)
				}
			}
		})
	}
}

func TestRunThatHitsNothingFails(t *testing.T) {
	r := &record{Results: []result{{Row: "r4", System: "x", Case: "cut", Trials: 3}, {Row: "r4", System: "x", Case: "not cut", Trials: 3, Hit: 1}}}
	if got := r.vacuous(); len(got) != 1 || got[0] != "r4 x, cut" {
		t.Errorf("without a hit: %q", got)
	}
}

func TestVerdict(t *testing.T) {
	for want, v := range map[string]string{
		"success":                                      verdict(contender.Answer{}, 1, 0, 1),
		"an error: not known":                          verdict(contender.Answer{Error: "x", Is: contender.Unknown}, 0, 1, -1),
		"an error: it was not held":                    verdict(contender.Answer{Error: "x", Is: contender.Gone}, 0, 1, -1),
		"an error: not known, and undone":              verdict(contender.Answer{Error: "x", Is: contender.Unknown}, 0, 0, 1),
		"success, with 2 levels in Redis instead of 1": verdict(contender.Answer{}, 2, 0, 1),
	} {
		if v != want {
			t.Errorf("%q, want %q", v, want)
		}
	}
}

// The results of a system in a row replace older ones, and no others.
func TestRecordsAreMerged(t *testing.T) {
	dir := t.TempDir()
	first := &record{Seed: 1, Versions: map[string]string{}, Settings: map[string]string{}, Results: []result{
		{Row: "r4", System: "a", Case: "cut", Hit: 1}, {Row: "r4", System: "b", Case: "cut", Hit: 2},
	}}
	second := &record{Seed: 2, Versions: map[string]string{}, Settings: map[string]string{}, Results: []result{{Row: "r4", System: "a", Case: "cut", Hit: 3}}}
	for _, r := range []*record{first, second} {
		if err := publish(r, dir); err != nil {
			t.Fatal(err)
		}
	}
	r, err := readRecord(filepath.Join(dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	if report, err := os.ReadFile(filepath.Join(dir, "report.md")); err != nil || strings.Count(string(report), "| cut |") != 2 {
		t.Errorf("the report (%v):\n%s", err, report)
	}
	if text, _ := json.Marshal(r.Results); len(r.Results) != 2 || r.Results[0].Hit != 2 || r.Results[1].Hit != 3 {
		t.Errorf("merged: %s", text)
	}
}

// The published report is that of the published figures, and the page names their versions.
func TestPublishedReport(t *testing.T) {
	const dir = "../../docs/comparison"
	r, err := readRecord(filepath.Join(dir, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	r.report(&want)
	if got, err := os.ReadFile(filepath.Join(dir, "report.md")); err != nil || string(got) != want.String() {
		t.Errorf("report.md (%v) is not that of run.json; `go run ./bench/faults report docs/comparison` writes it", err)
	}
	page, err := os.ReadFile(dir + ".md")
	if err != nil {
		t.Fatal(err)
	}
	for name, version := range r.Versions {
		number := regexp.MustCompile(`\d+\.\d+\.\d+`).FindString(version)
		if !strings.Contains(string(page), number) {
			t.Errorf("docs/comparison.md does not name the version of %s, %s", name, version)
		}
	}
	if len(r.Results) < 60 || len(r.vacuous()) > 0 {
		t.Errorf("%d results, and no trial counts in %q; want sixty at least, and none", len(r.Results), r.vacuous())
	}
}

func TestPickRefusesWhatIsUnknown(t *testing.T) {
	if _, err := pick("row", "r4,r99", rows, func(r row) string { return r.name }); err == nil {
		t.Error("r99 is run")
	}
}

// A row that is run alone, as the command that is printed does, meets the same chance as among all others.
func TestRowRunAloneMeetsTheSameChance(t *testing.T) {
	for i, row := range rows {
		if got := stream(row.name); got != uint64(i) {
			t.Errorf("the stream of %s is %d, want %d", row.name, got, i)
		}
		a := &trials{row: row, system: contender.Systems[0], n: row.n + 1, lease: time.Second}
		want := fmt.Sprintf("go run ./bench/faults -only %s -peer %s -seed 7 -n %d -lease 1s", row.name, a.system.Name, row.n+1)
		if got := a.command(7); got != want {
			t.Errorf("the command is %q, want %q", got, want)
		}
	}
}
