package torture

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/torture"
)

// lease is ample if it is longer than a dead waiter has its place, its claim, or its grant, in Redis. With a
// shorter one, these decide when a lock is free.
var lease = ample

func init() { flag.DurationVar(&lease, "lease", ample, "the lease of clients that are killed") }

var kills = flag.Int("kills", 0, "how many clients to kill at least; a few if 0 and -time is 0")

const (
	ample     = 4 * time.Second                                 // a lease that is
	companies = 64                                              // victims at the same time
	remains   = 3*time.Second + 1100*time.Millisecond + tardily // of a dead waiter: its place lasts, and then the next one asks
	tardily   = 400 * time.Millisecond                          // what a busy machine adds
)

// freeWithin is how long what a dead client held may stay taken.
func freeWithin() time.Duration { return max(lease+time.Second, remains) }

// crime is the kill of one client at one boundary of a script.
type crime struct {
	load torture.Load
	boundary
	dead time.Time
}

// mortuary is what all kills of a test share.
type mortuary struct {
	t      *testing.T
	server *redistest.Server
	others *locks // the clients that live, which share what they lock with the victims
	random *rand.Rand
	long   bool

	mu      sync.Mutex        // guards the fields below
	names   map[string]string // of scripts, by digest
	hit     map[boundary]int  // kills
	seen    map[string]map[string]bool
	slowest time.Duration // until a lock was free
	free    int           // locks that were seen to become so
}

// TestKillsAtScripts kills clients with SIGKILL exactly before and after a script: what they held
// is free a second after its lease at the latest, and nothing of them stays in Redis.
func TestKillsAtScripts(t *testing.T) {
	alongside(t)
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	m := &mortuary{
		t: t, server: redistest.Single(t), random: rand.New(rand.NewPCG(first, 4)), long: *limit > 0 || *kills > 0,
		names: map[string]string{}, hit: map[boundary]int{}, seen: map[string]map[string]bool{},
	}
	tellAgainIfFailed(t, replay(t.Name(), "-time", "1m", "-seed", fmt.Sprint(first), "-lease", lease.String()))
	m.others = m.live()
	done := 0
	for begin := time.Now(); done == 0 || time.Since(begin) < *limit || done < *kills; {
		n := companies
		if !m.long {
			n = len(m.loads(0))
		}
		canary.Judge(t, func(_ *testing.T, b *canary.Bounds) {
			before := m.slowest
			m.slowest = 0
			done += m.company(done, n)
			b.Within("a lock of the dead is free", m.slowest, freeWithin())
			m.slowest = max(before, m.slowest)
		})
		if t.Failed() {
			break
		}
	}
	if done == 0 || m.free == 0 {
		t.Errorf("vacuous: %d clients were killed, and %d locks became free", done, m.free)
	}
	m.report(first, done)
}

// live returns a client in this process, which learns the names of scripts.
func (m *mortuary) live() *locks {
	d, end, err := dial(torture.Config{Driver: "goredis", Topology: "single", Addrs: []string{m.server.Addr()}})
	if err != nil {
		m.t.Fatal(err)
	}
	l := &locks{Client: mortise.New(witnessed{d, m}, &mortise.Options{TTL: lease}), ends: []func(){end}}
	m.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			m.t.Error(err)
		}
	})
	return l
}

// witnessed is a driver that tells the names of the scripts that it runs.
type witnessed struct {
	driver.Driver
	*mortuary
}

func (w witnessed) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	w.mu.Lock()
	w.names[call.Script.SHA()] = call.Script.Name()
	w.mu.Unlock()
	return w.Driver.Eval(ctx, call)
}

func (w witnessed) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	w.mu.Lock()
	for _, c := range calls {
		w.names[c.Script.SHA()] = c.Script.Name()
	}
	w.mu.Unlock()
	return w.Driver.Batch(ctx, calls)
}

// loads are what victims take; the names are those of the n-th of them.
func (m *mortuary) loads(n int) []torture.Load {
	name := "dead" + strconv.Itoa(n) + "."
	return []torture.Load{
		{Kind: "lock", Name: name},
		{Kind: "fair", Name: name},
		{Kind: "spin", Name: name},
		{Kind: "fenced", Name: name},
		{Kind: "read", Name: name},
		{Kind: "write", Name: name},
		{Kind: "group", Name: name, Names: []string{"a", "b"}},
		{Kind: "multi", Names: []string{name, name + "2"}},
		{Kind: "permit", Name: name, Units: 1},
		{Kind: "election", Name: name},
		{Kind: "semaphore", Name: name, Units: 2},
		{Kind: "latch", Name: name, Units: 5, Role: "count"},
		{Kind: "barrier", Name: name, Units: 2},
		{Kind: "double", Name: name, Units: 2},
	}
}

// company kills so many clients at the same time, and returns how many it has killed at a script.
func (m *mortuary) company(from, n int) int {
	kinds := m.loads(0)
	offset := m.random.IntN(len(kinds))
	crimes := make([]*crime, n)
	var all sync.WaitGroup
	for i := range n {
		load := m.loads(from + i)[(offset+i)%len(kinds)]
		c, random := &crime{load: load, boundary: boundary{after: m.random.IntN(2) == 0}}, rand.New(rand.NewPCG(m.random.Uint64(), 0))
		crimes[i] = c
		all.Go(func() { m.commit(c, random) })
	}
	all.Wait()
	done := 0
	for _, c := range crimes {
		if c.dead.IsZero() {
			continue
		}
		done++
		m.bury(c)
	}
	return done
}

// commit starts a victim and has it killed, while a client that lives takes the same lock.
func (m *mortuary) commit(c *crime, random *rand.Rand) {
	var v *victim
	started, killed := make(chan struct{}), make(chan struct{})
	target, countdown := m.target(c, random), random.IntN(4)
	begin := time.Now()
	passes := func(sha string) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		kind := m.seen[c.load.Kind]
		if kind == nil {
			kind = map[string]bool{}
			m.seen[c.load.Kind] = kind
		}
		kind[sha] = true
		if sha == target || target == "" || time.Since(begin) > 6*time.Second {
			countdown--
		}
		if countdown >= 0 {
			return true
		}
		c.script = sha
		return false
	}
	g := newGate(m.t, m.server.Addr(), c.after, passes, func() {
		<-started
		if err := v.kill(); err != nil {
			m.t.Errorf("%s: %v", c.load.Kind, err)
		}
		c.dead = v.killed
		close(killed)
	})
	defer g.close()
	dies, live := context.WithCancel(m.t.Context())
	defer live()
	var company sync.WaitGroup
	other := rand.New(rand.NewPCG(random.Uint64(), 1))
	company.Go(func() { m.contend(dies, c, other) })
	v, err := startVictim(task{Config: torture.Config{
		Seed: random.Uint64(), Goroutines: 2, Loads: []torture.Load{c.load}, Driver: []string{"goredis", "rueidis"}[random.IntN(2)],
		Topology: "single", Addrs: []string{g.addr()}, TTL: lease,
	}})
	if err != nil {
		m.t.Error(err)
		return
	}
	close(started)
	select {
	case <-killed:
	case <-time.After(time.Minute):
		m.t.Errorf("%s: a client has not sent the script at which it was to be killed within a minute", c.load.Kind)
	}
	live()
	company.Wait()
	if err := v.kill(); err != nil {
		m.t.Errorf("%s: %v", c.load.Kind, err)
	}
	m.freed(c)
}

// target returns the script of a kind at which the fewest were killed on this side; empty if any will do.
func (m *mortuary) target(c *crime, random *rand.Rand) (sha string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for sha := range m.seen[c.load.Kind] {
		all = append(all, sha)
	}
	slices.Sort(all)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	fewest := 1 << 30
	for _, s := range all {
		if n := m.hit[boundary{s, c.after}]; n < fewest {
			sha, fewest = s, n
		}
	}
	return sha
}

// boundary is the instant before a script, given by its digest, or after it.
type boundary struct {
	script string
	after  bool
}

// where says at which script a client was killed. It must be called with m.mu held.
func (m *mortuary) where(c boundary) string {
	name := cmp.Or(m.names[c.script], c.script)
	if c.after {
		return "after " + name
	}
	return "before " + name
}

// contend takes what a victim takes, again and again, until ctx ends.
func (m *mortuary) contend(ctx context.Context, c *crime, random *rand.Rand) {
	work := task{Config: torture.Config{Loads: []torture.Load{c.load}, TTL: lease}}
	for ctx.Err() == nil {
		if err := work.busy(m.others, random); err != nil {
			m.t.Errorf("%s: %v", c.load.Kind, err)
			return
		}
	}
}

// freed waits until what a dead client may have held is free, which is bounded by its lease.
func (m *mortuary) freed(c *crime) {
	m.mu.Lock()
	m.hit[c.boundary]++
	m.mu.Unlock()
	if c.dead.IsZero() || slices.Contains([]string{"semaphore", "latch", "barrier", "double"}, c.load.Kind) {
		return // there is no lease, or nothing to have
	}
	held, _, err := m.others.Take(m.t.Context(), c.load, max(4*freeWithin(), time.Minute))
	took := time.Since(c.dead)
	if err != nil {
		m.t.Errorf("%s, killed %s: not free after %v: %v", c.load.Kind, m.where(c.boundary), took, err)
		return
	}
	m.mu.Lock()
	m.slowest = max(m.slowest, took)
	m.free++
	where := m.where(c.boundary)
	m.mu.Unlock()
	if took > freeWithin() { // which is judged for all together
		m.t.Logf("%s, killed %s: free after %v, want %v at most, with a lease of %v", c.load.Kind, where, took, freeWithin(), lease)
	}
	if err := held.Unlock(); err != nil {
		m.t.Errorf("%s: %v", c.load.Kind, err)
	}
}

// bury checks that two leases later nothing of a victim is left, and no number is negative.
func (m *mortuary) bury(c *crime) {
	name := c.load.Name
	if name == "" {
		name = c.load.Names[0]
	}
	name = strings.TrimSuffix(name, ".")
	time.Sleep(time.Until(c.dead.Add(2 * max(lease, ample))))
	keys, err := m.server.Do("KEYS", "*"+name+".*")
	if err != nil {
		m.t.Fatal(err)
	}
	for _, k := range keys.([]any) {
		key := fmt.Sprint(k)
		switch {
		case keyspace.CountsTokens(key):
		case remembers(key):
			if ttl := m.server.Int(m.t, "PTTL", key); ttl == -1 {
				m.t.Errorf("%s: the key %q is left forever", c.load.Kind, key)
			}
		case key == c.load.Name && (c.load.Kind == "semaphore" || c.load.Kind == "latch" || c.load.Kind == "permit"):
			if n, err := strconv.Atoi(m.server.Str(m.t, "GET", key)); err != nil || n < 0 || n > c.load.Units {
				m.t.Errorf("%s: %q is %d, %v; want a number up to %d", c.load.Kind, key, n, err, c.load.Units)
			}
		default:
			m.t.Errorf("%s, killed %s: %q is left after %v, for %d ms", c.load.Kind, m.where(c.boundary), key, 2*max(lease, ample), m.server.Int(m.t, "PTTL", key))
		}
	}
}

// report prints at which scripts how many clients were killed.
func (m *mortuary) report(first uint64, done int) {
	if !m.long {
		return
	}
	var all []string
	for at, n := range m.hit {
		all = append(all, fmt.Sprintf("%s %d", m.where(at), n))
	}
	slices.Sort(all)
	fmt.Println(strings.Join(all, "\n"))
	fmt.Printf("kills: clients: %d, at boundaries of scripts: %d, with -seed %d; of %d locks the slowest was free after %v of a lease of %v\n",
		done, len(all), first, m.free, m.slowest.Round(time.Millisecond), lease)
}
