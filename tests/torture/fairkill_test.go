package torture

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/torture"
)

var enough = flag.Int("grants", 0, "how many grants of fair locks to count at least; those of one queue if 0 and -time is 0")

// patience is how long the dead may delay a waiter that lives, however many they are.
const patience = 10 * time.Second

// funeral is a queue of a fair lock in which the head and others are killed.
type funeral struct {
	t      *testing.T
	server *redistest.Server
	random *rand.Rand
	living []*locks
	name   string

	mu      sync.Mutex // guards the fields below
	order   []int      // of the grants
	last    time.Time  // of the grants, or the release
	longest time.Duration
}

// TestKilledFairWaiters kills waiters of a fair lock with SIGKILL, its head among them: those that live get the
// lock in the order in which they came, and the dead delay them for ten seconds at most.
func TestKilledFairWaiters(t *testing.T) {
	alongside(t)
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	server := redistest.Single(t)
	tellAgainIfFailed(t, replay(t.Name(), "-time", "1m", "-seed", fmt.Sprint(first)))
	random := rand.New(rand.NewPCG(first, 5))
	var living []*locks
	for i := range 5 {
		d, end, err := dial(torture.Config{Driver: []string{"goredis", "rueidis"}[i%2], Topology: "single", Addrs: []string{server.Addr()}})
		if err != nil {
			t.Fatal(err)
		}
		l := &locks{Client: mortise.New(d, nil), ends: []func(){end}}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		living = append(living, l)
	}
	grants, dead, inversions, queues, longest := 0, 0, 0, 0, time.Duration(0)
	for begin := time.Now(); queues == 0 || (time.Since(begin) < *limit || grants < *enough) && !t.Failed(); {
		waiters, killed := 8, 4
		if *limit > 0 || *enough > 0 {
			waiters, killed = 50+random.IntN(150), 1+random.IntN(20)
		}
		f := &funeral{t: t, server: server, random: random, living: living, name: fmt.Sprintf("fair:%d", queues)}
		canary.Judge(t, func(_ *testing.T, b *canary.Bounds) {
			f.order, f.longest = nil, 0
			f.hold(waiters, killed)
			b.Within("the hand-over past the dead", f.longest, patience)
		})
		queues, dead, grants = queues+1, dead+killed, grants+len(f.order)
		inversions, longest = inversions+inverted(f.order), max(longest, f.longest)
		if len(f.order) != waiters && !t.Failed() {
			t.Errorf("%s: %d of %d waiters had the lock", f.name, len(f.order), waiters)
		}
	}
	judgeGrants(t, grants, inversions)
	if *limit > 0 || *enough > 0 {
		fmt.Printf("fair: %s in %s; waiters that were killed: %d, with -seed %d; %s, longest delay %v\n",
			counted(grants, "grant"), counted(queues, "queue"), dead, first, counted(inversions, "inversion"), longest.Round(time.Millisecond))
	}
}

func judgeGrants(t *testing.T, grants, inversions int) {
	if inversions > 0 {
		t.Errorf("%d grants went to one that had come later, of %d", inversions, grants)
	}
	if grants < *enough {
		t.Errorf("%d grants were counted, want %d at least", grants, *enough)
	}
}

// inverted counts the grants before which one went to a waiter that had come later.
func inverted(order []int) (n int) {
	latest := -1
	for _, i := range order {
		if i < latest {
			n++
		}
		latest = max(latest, i)
	}
	return n
}

// hold fills a queue behind a holder, kills some of it, and waits until all others have had the lock.
func (f *funeral) hold(waiters, killed int) {
	held, _, err := f.living[0].FairLock(f.name).Lock(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	var victims []*victim
	var all sync.WaitGroup
	defer all.Wait()
	queued := 0
	for came := 0; came < waiters || killed > 0; {
		n := 1
		if killed > 0 && (queued == 0 || f.random.IntN(waiters) < 4 || came == waiters) { // the head among them
			n = min(killed, 1+f.random.IntN(6))
			killed -= n
			v, err := startVictim(task{Waits: true, Config: torture.Config{
				Goroutines: n, Loads: []torture.Load{{Kind: "fair", Name: f.name}}, Driver: []string{"goredis", "rueidis"}[f.random.IntN(2)],
				Topology: "single", Addrs: []string{f.server.Addr()}, TTL: lease, // one may be killed when it has just got the lock
			}})
			if err != nil {
				f.t.Error(err)
				break
			}
			victims = append(victims, v)
		} else {
			i, l := came, f.living[f.random.IntN(len(f.living))]
			all.Go(func() { f.wait(i, l) })
			came++
		}
		queued += n
		f.await(queued)
	}
	late := f.random.IntN(len(victims)) // these are killed when the lock is free already, or soon
	for i, v := range victims {
		if i == late && i > 0 {
			f.release(held)
			held = nil
		}
		if err := v.kill(); err != nil {
			f.t.Error(err)
		}
	}
	if held != nil {
		f.release(held)
	}
}

func (f *funeral) release(held *mortise.Hold) {
	f.mu.Lock()
	f.last = time.Now()
	f.mu.Unlock()
	if err := held.Unlock(); err != nil {
		f.t.Error(err)
	}
}

// await waits until so many are in the queue. It asks often: each waiter comes after the one before.
func (f *funeral) await(queued int) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(500 * time.Microsecond) {
		n := f.server.Int(f.t, "LLEN", keyspace.FairQueue(f.name))
		if n == int64(queued) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d are in the queue, want %d", n, queued)
		}
	}
}

// wait is the i-th waiter that lives.
func (f *funeral) wait(i int, l *locks) {
	held, _, err := l.FairLock(f.name).With(mortise.LockOptions{Wait: time.Minute}).Lock(f.t.Context())
	if err != nil {
		f.t.Error(err)
		return
	}
	f.mu.Lock()
	f.order = append(f.order, i)
	f.longest = max(f.longest, time.Since(f.last))
	f.last = time.Now()
	f.mu.Unlock()
	if err := held.Unlock(); err != nil {
		f.t.Error(err)
	}
}

func TestInverted(t *testing.T) {
	for _, c := range []struct {
		order []int
		want  int
	}{
		{nil, 0}, {[]int{0, 1, 2, 3}, 0}, {[]int{0, 2, 1, 3}, 1}, {[]int{3, 0, 1, 2}, 3},
	} {
		if got := inverted(c.order); got != c.want {
			t.Errorf("%v: %d, want %d", c.order, got, c.want)
		}
	}
}
