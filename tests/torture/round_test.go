package torture

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/torture"
)

// How much a round has of everything.
const (
	clients    = 4
	goroutines = 3

	// A lock with a long lease is relied on as soon as a message says that it is granted; with a short one, Redis is
	// asked first. Faults are as long as leases, so there are more of them with short ones.
	short, long = 1500 * time.Millisecond, 3500 * time.Millisecond

	served = 30 * time.Second // within which every goroutine has its lock after the faults
	forgot = 30 * time.Second // within which the servers are as they were at the beginning
	fewest = 50               // acquisitions of a round that has shown something
)

// plan is a round.
type plan struct {
	seed    uint64
	nemesis *nemesis
	kind    string // of deployment
	driver  string
	program string        // of the clients
	storm   time.Duration // how long there are faults
	load    string        // a kind that there must be
	brief   bool          // nothing is asked of the number of faults
}

// lease is the TTL of all locks of the round.
func (p plan) lease() time.Duration {
	if p.seed%2 == 0 {
		return long
	}
	return short
}

func (p plan) String() string { return fmt.Sprintf("%s/%s/%s", p.nemesis.name, p.kind, p.driver) }

// round is a plan that is carried out.
type round struct {
	plan
	*deployment
	*witness
	recorder *recorder
	t        *testing.T
	random   *rand.Rand
	clients  []*client
	lives    []int         // processes so far, by place
	hits     int           // faults that hit what they were meant to hit
	ahead    time.Duration // of Redis' clock

	failovers int  // that the nemesis has caused
	sharp     bool // there were no others

	measured []measure
}

// measure is how long something took that is promised within a bound.
type measure struct {
	what        string
	took, bound time.Duration
}

// result is what is left of a round.
type result struct {
	plan
	tally
	hits   int
	bad    []string
	took   time.Duration
	forgot bool // Redis forgot what it had confirmed

	measured []measure
}

// judged carries out a plan, and judges what it took beside a canary.
func judged(t *testing.T, p plan) {
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		r := run(t, p)
		for _, m := range r.measured {
			b.Within(m.what, m.took, m.bound)
		}
		report(t, r)
	})
}

// overdue says what took longer than its bound.
func (r result) overdue() (all []string) {
	for _, m := range r.measured {
		if m.took > m.bound {
			all = append(all, fmt.Sprintf("%v have passed, and it was not so that %s", m.bound, m.what))
		}
	}
	return all
}

// run carries out a plan.
func run(t *testing.T, p plan) result {
	t.Helper()
	begin := time.Now()
	random := rand.New(rand.NewPCG(p.seed, 1))
	r := &round{plan: p, t: t, random: random, deployment: deploy(t, p.kind, p.nemesis.args)}
	r.witness = newWitness(t, p.mix(random.IntN), p.lease())
	r.recorder = record(t, r.servers)
	r.allowed = p.nemesis.allowed
	if !p.nemesis.failsOver || r.sentinel != nil {
		r.calmDown(t)
	}
	for i := range clients {
		r.populate(i)
	}
	defer r.depopulate()
	if r.begun() {
		r.storms()
		r.heal()
		if r.settle() {
			r.retire()
			if err := r.eventually(forgot, "nothing is left", func() error { return r.left(t) }); err != nil {
				r.blame("after the round, %v", err)
			}
		}
	}
	r.judge()
	return result{p, r.tally, r.hits, r.bad, time.Since(begin), len(r.faults) > 0, r.measured}
}

// storms lets the nemesis loose, and finds out whether what Redis has forgotten is known exactly.
func (r *round) storms() {
	if !r.nemesis.failsOver {
		r.strike()
		r.sharp = r.failovers > 0
		return
	}
	before := r.epoch()
	if r.nemesis.acks != 0 {
		r.strike() // nothing may be forgotten
		return
	}
	r.forgets(r.strike)
	r.raiseTokens()
	r.sharp = before >= 0 && r.epoch()-before == r.failovers
}

// populate starts the client of a place.
func (r *round) populate(i int) {
	links, via := link(r.t, r.all())
	c := &client{program: r.program, links: links, config: torture.Config{
		Witness: r.listener.Addr().String(), Client: i, Seed: r.seed, Goroutines: goroutines, Loads: r.loads,
		Driver: r.driver, Topology: r.topology, Addrs: r.addrs(), Via: via, TTL: r.ttl, Acks: r.nemesis.acks,
	}}
	r.clients, r.lives = append(r.clients, c), append(r.lives, 0)
	if err := c.start(0); err != nil {
		r.t.Fatal(err)
	}
}

// replace starts another process in the place of a killed one.
func (r *round) replace(i int) {
	r.lives[i]++
	if err := r.clients[i].start(r.lives[i]); err != nil {
		r.t.Fatal(err)
	}
}

func (r *round) depopulate() {
	for _, c := range r.clients {
		c.kill()
	}
}

// begun waits until the clients work.
func (r *round) begun() bool {
	return r.wait(time.Minute, "the clients have begun", func() bool { return r.acquisitions() > 2*clients*goroutines })
}

func (r *round) acquisitions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tally.acquisitions
}

// guard is how long a round waits for what must happen. What is promised is judged with the bound.
func guard(bound time.Duration) time.Duration { return max(bound, time.Minute) }

// wait waits for a state of the clients, which is promised within bound. It gives up early if one of them ends.
func (r *round) wait(bound time.Duration, what string, ready func() bool) bool {
	begin, limit := time.Now(), guard(bound)
	for deadline := begin.Add(limit); !ready(); time.Sleep(5 * time.Millisecond) {
		for _, c := range r.clients {
			if err := c.gone(); err != nil {
				r.blame("a client has ended: %v", err)
				return false
			}
		}
		if time.Now().After(deadline) {
			r.blame("%v have passed, and it is not so that %s", limit, what)
			return false
		}
	}
	r.measured = append(r.measured, measure{what, time.Since(begin), bound})
	return true
}

// eventually is wait for a state of the servers.
func (r *round) eventually(bound time.Duration, what string, f func() error) error {
	begin := time.Now()
	err := soon(guard(bound), f)
	if err == nil {
		r.measured = append(r.measured, measure{what, time.Since(begin), bound})
	}
	return err
}

// strike lets the nemesis loose. On a busy machine it takes longer to show something.
func (r *round) strike() {
	begun := time.Now()
	for time.Since(begun) < r.storm || time.Since(begun) < 4*r.storm && r.vacuous() != "" {
		if time.Since(begun) < r.storm || r.hits < r.nemesis.least {
			r.hits += r.nemesis.strike(r)
		}
		r.pause(50*time.Millisecond, 400*time.Millisecond)
		for _, c := range r.clients {
			if err := c.gone(); err != nil {
				r.blame("a client has ended: %v", err)
				return
			}
		}
	}
}

// pause sleeps for a random time.
func (r *round) pause(least, most time.Duration) { time.Sleep(least + r.upTo(most-least)) }

func (r *round) upTo(d time.Duration) time.Duration { return time.Duration(r.random.Int64N(int64(d))) }

// heal ends all faults that clients suffer; a nemesis ends those of servers itself.
func (r *round) heal() {
	for _, c := range r.clients {
		c.signal(syscall.SIGCONT)
		for _, l := range c.links {
			l.Flow()
			l.Delay(0)
		}
	}
	r.mu.Lock()
	r.calm = torture.Now()
	r.mu.Unlock()
}

// settle waits until each goroutine has had what it asks for, and has stopped.
func (r *round) settle() bool {
	ok := r.wait(served, "every goroutine has a lock", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.stops == clients*goroutines
	})
	if !ok {
		r.stuck()
	}
	return ok
}

// stuck says what waits, and has the clients show their goroutines.
func (r *round) stuck() {
	r.mu.Lock()
	for who, s := range r.places {
		if s.waits != 0 {
			r.note("client %d waits for %s for %v", who.client, r.describe(s.load), time.Duration(torture.Now()-s.waits))
		} else if !s.stopped {
			r.note("client %d is stuck in %s", who.client, r.describe(s.load))
		}
	}
	r.mu.Unlock()
	r.dump()
}

// dump has the clients show their goroutines, if somebody wants to see them.
func (r *round) dump() {
	if dir := os.Getenv("MORTISE_TORTURE_DUMPS"); dir != "" {
		for i, c := range r.clients {
			err := c.await(0)
			_ = os.WriteFile(fmt.Sprintf("%s/%d-%d.txt", dir, r.seed, i), []byte(fmt.Sprint(err)), 0o600)
		}
	}
}

// retire waits for the clients to end.
func (r *round) retire() {
	if r.driver == "rueidis" && r.sentinel != nil { // its Close waits for a sentinel that is silent forever
		r.cutStranded()
	}
	closed := r.wait(20*time.Second, "the clients have closed the library", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.byes == clients
	})
	r.cutStranded()
	if !closed {
		r.dump()
	} else { // and still live
		if err := r.eventually(5*time.Second, "nobody is connected", func() error { return r.visited(r.t) }); err != nil {
			r.blame("after the clients have closed the library, %v", err)
		}
	}
	r.dismiss()
	for _, c := range r.clients {
		begin := time.Now()
		if err := c.await(2 * time.Minute); err != nil {
			r.blame("client %d: %v", c.config.Client, err)
		}
		r.measured = append(r.measured, measure{"a client has ended", time.Since(begin), 20 * time.Second})
	}
	r.accounts()
}

func (r *round) cutStranded() {
	for _, c := range r.clients {
		for _, l := range c.links {
			l.CutStranded()
		}
	}
}

// permits checks that all permits are there again, and deletes the semaphore.
func (r *round) permits(l torture.Load) {
	s := r.serving(r.t, l.Name)
	var left string
	r.wait(10*time.Second, "all permits are back", func() bool {
		left = s.Str(r.t, "GET", l.Name)
		n := s.Int(r.t, "ZCOUNT", "{"+l.Name+"}:timeout", "-inf", "+inf")
		return left == fmt.Sprint(l.Units) || left == "" || n > 0 // those of the dead come back when somebody asks
	})
	_, _ = s.Do("DEL", l.Name, "{"+l.Name+"}:timeout", "mortise:claim:{"+l.Name+"}")
}

// judge checks the history of the round, and that the round has shown something.
func (r *round) judge() {
	r.mu.Lock()
	defer r.mu.Unlock()
	faults := r.faults
	if r.sharp && len(faults) > 0 {
		faults = r.windows
		r.tally.sharp++
	}
	for _, h := range r.histories() {
		for _, o := range h.overlaps() {
			if admitted(o, faults, r.ttl) {
				r.tally.admitted++
			} else {
				_, name, _ := strings.Cut(o.thing, ":")
				r.note("%v%s", o, r.recorder.show(name, o.span, r.ttl))
			}
		}
	}
	r.tokens()
	for _, t := range r.taken {
		r.reported(t)
	}
	r.met()
	if r.tally.heap > 16<<20 {
		r.note("a client's heap has grown by %d MB", r.tally.heap>>20)
	}
	if why := r.vacuity(); why != "" {
		r.note("vacuous: %s", why)
	}
}

// vacuous says why the round has not shown anything yet; empty if it has.
func (r *round) vacuous() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.vacuity()
}

// vacuity is vacuous with the mutex locked.
func (r *round) vacuity() string {
	want := cmp.Or(r.nemesis.fewest, fewest)
	switch {
	case r.brief:
	case r.hits < r.nemesis.least:
		return fmt.Sprintf("the faults hit %d times, want %d at least", r.hits, r.nemesis.least)
	case r.tally.acquisitions < want:
		return fmt.Sprintf("%d acquisitions, want %d at least", r.tally.acquisitions, want)
	}
	return ""
}

// reported checks that a loss was reported. A lease may go from one goroutine to the next of its
// client, without Redis: then the last one has to learn of it.
func (w *witness) reported(t taken) {
	var last *section
	for _, c := range w.sections {
		if c.owner == t.owner && c.start != 0 && c.start < t.from && c.ended > t.to && c.last > t.to {
			last = c
		}
	}
	if last == nil {
		return // it was released at that moment, or killed
	}
	w.tally.taken++
	for _, c := range w.sections {
		if c.owner != t.owner || c.ended <= t.to || !c.lost && c.class != "unknown" {
			continue
		}
		if c.noticed > t.to {
			w.tally.slowest = max(w.tally.slowest, time.Duration(c.noticed-t.to))
		}
		return
	}
	if w.handedOn(last) {
		w.tally.unaware++ // its Unlock handed the lease to a waiter, which found it lost, and waited on or gave up
		return
	}
	w.note("client %d had %s, lost its key, and was not told: %s", last.client, w.describe(last.load), w.after(last))
}

// handedOn reports whether the end of a section may have handed its lease to another goroutine of its client, which
// waited at that moment.
func (w *witness) handedOn(s *section) bool {
	load := w.loads[s.load]
	return (load.Kind == "lock" || load.Fenced) && s.class == "" && slices.ContainsFunc(w.waits, func(o waited) bool {
		other := w.loads[o.load]
		return o.client == s.client && other.Kind == load.Kind && other.Name == load.Name && o.from < s.ended && o.to > s.last
	})
}

// after tells how a section ended, and what its client did about the same lock at that time.
func (w *witness) after(s *section) string {
	at := func(t int64) time.Duration { return time.Duration(t - s.start).Round(10 * time.Microsecond) }
	var b strings.Builder
	fmt.Fprintf(&b, "goroutine %d had it until %v, and said so at %v (%q)", s.goroutine, at(s.last), at(s.ended), s.class)
	for _, o := range w.waits {
		if o.client == s.client && w.loads[o.load].Name == w.loads[s.load].Name && o.to > s.start && o.from < s.ended {
			fmt.Fprintf(&b, "; goroutine %d waited from %v to %v", o.goroutine, at(o.from), at(o.to))
		}
	}
	return b.String()
}

// leased returns when the lease of a hold was asked for, and when its first hold began: a lease goes from one
// goroutine of its client to the next without Redis.
func (w *witness) leased(s *section) (asked, began int64) {
	asked, began = s.asked, s.start
	if s.owner == "" {
		return asked, began
	}
	for _, c := range w.sections {
		if c.owner == s.owner && c.start != 0 {
			asked, began = min(asked, c.asked), min(began, c.start)
		}
	}
	return asked, began
}

// who tells of a holder.
func (p *section) who(kind string) string {
	noticed := "had not ended"
	if p.noticed != 0 {
		noticed = fmt.Sprint("ended ", time.Duration(p.noticed-p.last))
	}
	return fmt.Sprintf("client %d (%s; its context %s, it said so %v after that)", p.client, strings.TrimSpace(kind+" "+p.owner), noticed, time.Duration(p.ended-p.last))
}

// histories returns what is known of each thing. It must be called with w.mu held.
func (w *witness) histories() (all []*history) {
	by := map[string]*history{}
	for _, c := range w.sections {
		if c.start == 0 {
			continue // it was not valid any more when it was there
		}
		load := w.loads[c.load]
		for _, thing := range things(load) {
			h := by[thing]
			if h == nil {
				h = &history{thing: thing, permits: load.Units}
				by[thing] = h
				all = append(all, h)
			}
			asked, began := w.leased(c)
			h.uses = append(h.uses, use{span{c.start, c.last}, asked, began, modeOf(load), c.token, c.who(load.Kind)})
		}
	}
	return all
}
