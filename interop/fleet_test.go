//go:build interop

package interop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// crew is so many threads or goroutines of one client that want the same lock.
type crew struct {
	of   int
	java string // the agent's kind of lock
	args string // what names the lock for the agent; %s is its name
	open func(c *mortise.Client, name string) gate
}

// gate acquires something, and returns how it is released.
type gate func(ctx context.Context) (leave func() error, err error)

// lockGate is the gate of a lock.
func lockGate(lock waiter) gate {
	return func(ctx context.Context) (func() error, error) {
		hold, _, err := lock.Lock(ctx)
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}
}

// fleetKinds are what fleets are set on: by name, the crews that one client of
// either side has.
var fleetKinds = map[string][]crew{
	"Lock":       {{4, "", "%s", func(c *mortise.Client, name string) gate { return lockGate(c.Lock(name)) }}},
	"FencedLock": {{4, "fenced", "%s", func(c *mortise.Client, name string) gate { return lockGate(c.FencedLock(name)) }}},
	"FairLock":   {{4, "fair", "%s", func(c *mortise.Client, name string) gate { return lockGate(c.FairLock(name)) }}},
	"SpinLock":   {{4, "spin", "%s", func(c *mortise.Client, name string) gate { return lockGate(c.SpinLock(name)) }}},
	"GroupLock":  {{4, "group", "%s a,b", func(c *mortise.Client, name string) gate { return lockGate(c.GroupLock(name, "a", "b")) }}},
	"RWLock":     {{4, "write", "%s", writeGate}},
	"RWLock, readers": {
		{2, "write", "%s", writeGate},
		{2, "read", "%s", func(c *mortise.Client, name string) gate { return lockGate(c.RWLock(name).Read()) }},
	},
	"Semaphore":       {{4, "semaphore", "%s", onePermit}},
	"PermitSemaphore": {{4, "permits", "%s", oneLease}},
}

func writeGate(c *mortise.Client, name string) gate { return lockGate(c.RWLock(name).Write()) }

// onePermit is the gate of a semaphore that has one permit, see oneOf.
func onePermit(c *mortise.Client, name string) gate {
	s := c.Semaphore(name)
	return func(ctx context.Context) (func() error, error) {
		if err := s.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		return func() error { return s.Release(ctx, 1) }, nil
	}
}

// oneLease is the same for permits with leases.
func oneLease(c *mortise.Client, name string) gate {
	s := c.PermitSemaphore(name)
	return func(ctx context.Context) (func() error, error) {
		hold, _, err := s.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return hold.Unlock, nil
	}
}

// oneOf sets the number of permits, if the kind is a semaphore, to one.
func (s *sea) oneOf(t testing.TB, kind, name string) {
	t.Helper()
	var err error
	switch kind {
	case "Semaphore":
		_, err = s.clients[0].Semaphore(name).TrySetPermits(t.Context(), 1)
	case "PermitSemaphore":
		_, err = s.clients[0].PermitSemaphore(name).TrySetPermits(t.Context(), 1)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// voyage is what a fleet reports: the sums of its members.
type voyage struct {
	Times         int // that they had the lock
	Least         int // that one of them had it
	LongestWaitMs float64
}

func (v *voyage) add(w voyage) {
	if v.Times == 0 || w.Least < v.Least {
		v.Least = w.Least
	}
	v.Times += w.Times
	v.LongestWaitMs = max(v.LongestWaitMs, w.LongestWaitMs)
}

// sea is where fleets sail: a server and an agent with several Redisson clients.
type sea struct {
	*world
	clients []*mortise.Client

	mu   sync.Mutex
	held map[string]bool // by kind, whether what is claimed of it was so; guarded by mu
}

// mostClients is how many Go clients there are at most in a fleet.
const mostClients = 4

func newSea(t *testing.T, version, transport string) *sea {
	t.Helper()
	w := &world{version: version, transport: transport, kind: lockKinds["Lock"]}
	w.nodes = []*redistest.Server{redistest.Single(t)}
	addr := w.redis().Addr()
	w.java = startAgent(t, version, agentOptions{Address: addr, Watchdog: longLease, Redlock: slices.Repeat([]string{addr}, mostClients)})
	s := &sea{world: w, held: make(map[string]bool)}
	for range mostClients {
		s.clients = append(s.clients, w.client(t, longLease))
	}
	return s
}

// sail has so many clients of each side work on a lock for a while, and returns
// what they have to say, and how many scripts were run per acquisition.
func (s *sea) sail(t testing.TB, kind, name string, javas, gos int, hold, window time.Duration) (inJava, inGo voyage, scripts float64) {
	t.Helper()
	s.oneOf(t, kind, name)
	from := time.Now().Add(50 * time.Millisecond).Truncate(time.Millisecond)
	until := from.Add(window)
	before := s.scripts(t)
	var replies []*reply
	var running sync.WaitGroup
	var mu sync.Mutex
	for i, crew := range fleetKinds[kind] {
		if javas > 0 {
			j := s.java.thread(fmt.Sprint("fleet:", name, i)).of(crew.java)
			replies = append(replies, j.send(j.verb("fleet"), append(strings.Fields(fmt.Sprintf(crew.args, name)),
				strconv.Itoa(javas), strconv.Itoa(crew.of), strconv.FormatInt(hold.Microseconds(), 10),
				strconv.FormatInt(from.UnixMilli(), 10), strconv.FormatInt(until.UnixMilli(), 10))...))
		}
		for _, c := range s.clients[:gos] {
			enter := crew.open(c, name)
			for range crew.of {
				running.Go(func() {
					v, err := sailGo(t.Context(), enter, hold, from, until)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					inGo.add(v)
				})
			}
		}
	}
	running.Wait()
	for _, r := range replies {
		inJava.add(result[voyage](t, r))
	}
	return inJava, inGo, float64(s.scripts(t)-before) / float64(max(1, inJava.Times+inGo.Times))
}

// sailGo does what the agent's command fleet does.
func sailGo(ctx context.Context, enter gate, held time.Duration, from, until time.Time) (v voyage, err error) {
	time.Sleep(time.Until(from))
	for asked := time.Now(); asked.Before(until); asked = time.Now() {
		leave, err := enter(ctx)
		if err != nil {
			return v, err
		}
		had := time.Now()
		v.LongestWaitMs = max(v.LongestWaitMs, float64(min(had.Sub(asked), until.Sub(asked)).Microseconds())/1000)
		if had.Before(until) {
			v.Times++
			time.Sleep(held)
		}
		if err := leave(); err != nil {
			return v, err
		}
	}
	v.Least = v.Times
	return v, nil
}

// fleetSize is the fleets of one cell: so many Go clients with one of Java's, and
// for how long each has the lock.
type fleetSize struct {
	clients int
	hold    time.Duration
}

func (size fleetSize) String() string {
	return fmt.Sprintf("4_Java_beside_%dx4_Go,_%v", size.clients, size.hold)
}

// window is long enough for a fleet to have a lock of the given kind a few hundred
// times, or to have everybody wait for several rounds. A client that has seen
// no other client has a spin lock for up to 400 ms at a time, and the next holder is
// chance: twenty slices tell something about a share.
func (size fleetSize) window(kind string) time.Duration {
	switch {
	case size.hold > 0 && kind == "SpinLock":
		return 5 * time.Second
	case size.hold > time.Millisecond:
		return 2500 * time.Millisecond
	case size.hold > 0:
		return 800 * time.Millisecond
	default:
		return 500 * time.Millisecond
	}
}

// TestFleets is about what becomes of Java's threads where busy Go processes want
// the same lock, and what that costs Go. The measure is a fleet of Java alone, and
// one of Go alone, under the same load. It is not parallel: others would take the
// processors from one fleet and not from the next.
func TestFleets(t *testing.T) {
	for _, version := range redissons(t) {
		t.Run(version, func(t *testing.T) {
			for _, transport := range slices.Sorted(maps.Keys(transports)) {
				t.Run(transport, func(t *testing.T) {
					s := newSea(t, version, transport)
					defer s.note()
					s.sail(t, "Lock", "warm", 1+mostClients, 1, 0, time.Second) // classes are loaded, code is compiled
					if version != redissons(t)[0] || transport != "rueidis" {
						s.compare(t, "Lock", fleetSize{2, time.Millisecond}) // no more depends on these
						return
					}
					kinds := slices.Sorted(maps.Keys(fleetKinds))
					for _, kind := range kinds {
						for _, clients := range fleetClients {
							s.compare(t, kind, fleetSize{clients, 0})
							s.compare(t, kind, fleetSize{clients, time.Millisecond})
						}
					}
					t.Run("at_once", func(t *testing.T) { // they sleep more than they work
						for _, kind := range kinds {
							for _, clients := range fleetClients {
								s.compare(t, kind, fleetSize{clients, 20 * time.Millisecond})
							}
						}
					})
				})
			}
		})
	}
}

// note puts into the table what came of the fleets.
func (s *sea) note() {
	for kind, held := range s.held {
		proofs.note(claim{kind, "busy fleets: no side starves", "Go <-> Java"}, s.String(), held)
	}
}

// compare has fleets of the given size compete for a lock of the given kind, and
// each side alone.
func (s *sea) compare(t *testing.T, kind string, size fleetSize) {
	t.Helper()
	t.Run(strings.ReplaceAll(kind, ", ", "_with_")+"/"+size.String(), func(t *testing.T) {
		if size.hold > time.Millisecond {
			t.Parallel()
		}
		canary.Judge(t, func(t *testing.T, b *canary.Bounds) { s.judge(t, b, kind, size) })
		s.mu.Lock()
		defer s.mu.Unlock()
		before, tried := s.held[kind]
		s.held[kind] = !t.Failed() && (before || !tried)
	})
}

// judge is one try of compare.
func (s *sea) judge(t *testing.T, b *canary.Bounds, kind string, size fleetSize) {
	lock, window := strings.ReplaceAll(t.Name(), "/", ":"), size.window(kind)
	javas, _, javaScripts := s.sail(t, kind, lock+":java", 1+size.clients, 0, size.hold, window)
	java, gos, scripts := s.sail(t, kind, lock, 1, size.clients, size.hold, window)
	_, alone, aloneScripts := s.sail(t, kind, lock+":go", 0, size.clients, size.hold, window/4)

	all := float64(java.Times + gos.Times)
	share, even := float64(java.Times)/all, 1/float64(1+size.clients)
	t.Logf("Java had it %.0f times of %.0f: %.1f %%, even were %.1f %%; its longest wait was %.0f ms, in a fleet of Java alone %.0f ms; Go's was %.0f ms, alone %.0f ms",
		float64(java.Times), all, 100*share, 100*even, java.LongestWaitMs, javas.LongestWaitMs, gos.LongestWaitMs, alone.LongestWaitMs)
	perSecond := func(times int, window time.Duration) float64 { return float64(times) / window.Seconds() }
	t.Logf("Go had it %.0f times a second, alone %.0f; both %.0f, Java alone %.0f",
		perSecond(gos.Times, window), perSecond(alone.Times, window/4), perSecond(java.Times+gos.Times, window), perSecond(javas.Times, window))
	if size.hold <= time.Millisecond { // no others run scripts meanwhile
		t.Logf("for each time they ran %.1f scripts, Go alone %.1f, Java alone %.1f", scripts, aloneScripts, javaScripts)
	}
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	limit := ms(3*javas.LongestWaitMs + stallMs) // three times as long as in a fleet of Java alone
	b.Within("the longest wait of a Java thread beside Go", ms(java.LongestWaitMs), limit)
	if size.hold == 0 { // of more than 200 releases a second Go looks at some
		return
	}
	b.Within("the longest wait of a goroutine beside Java", ms(gos.LongestWaitMs), limit)
	// A share is so large if it takes no longer than the window to have the least that is promised.
	within := func(least, share float64) time.Duration {
		return time.Duration(min(float64(window)*least/share, float64(time.Hour)))
	}
	b.Within("the time in which Java has half of an even share", within(even/2, share), window)
	if kind != "SpinLock" { // spinning goroutines get it by chance
		b.Within("the time in which Go has a tenth of an even share", within((1-even)/10, 1-share), window)
	}
}

// fleetClients are the numbers of Go clients that compete with Java's.
var fleetClients = []int{1, 2, mostClients}

// stallMs is for how long a busy machine may stop everybody, whatever the lock
// does. Where the lock is held for less than a millisecond, that is more than all
// waits.
const stallMs = 200
