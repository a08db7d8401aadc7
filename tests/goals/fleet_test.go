package goals

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// taker is a lock, or a semaphore with one permit.
type taker interface {
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
}

// fleet is a crowd of clients that contend for names, and see at once when two hold the same one.
type fleet struct {
	keep  time.Duration // for which most have it
	wait  time.Duration // after which a caller gives up
	seed  uint64        // of the processes, their names and their times
	ships uint64        // goroutines

	mu      sync.Mutex // guards what follows
	in      map[string]*mortise.Hold
	double  []string            // names that were held twice
	events  map[string][]string // the last ones of each name, and under "" of the servers
	errs    map[string]int
	grants  int
	longest time.Duration // of the waits

	stop   atomic.Bool
	sailed sync.WaitGroup
}

func newFleet(t *testing.T, keep, wait time.Duration) *fleet {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &fleet{keep: keep, wait: wait, seed: seed, in: make(map[string]*mortise.Hold), events: make(map[string][]string), errs: make(map[string]int)}
}

// sail has goroutines take any of the locks, again and again.
func (f *fleet) sail(t *testing.T, goroutines int, locks []taker, names []string) {
	for range goroutines {
		f.ships++
		r := rand.New(rand.NewPCG(f.seed, f.ships))
		f.sailed.Go(func() {
			for !f.stop.Load() {
				n := r.IntN(len(locks))
				keep := f.keep
				if r.IntN(4) == 0 { // longer than a waiter is granted a lock for, until it has asked
					keep *= 3
				}
				f.once(t, locks[n], names[n], keep)
			}
		})
	}
}

func (f *fleet) once(t *testing.T, lock taker, name string, keep time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), f.wait)
	defer cancel()
	asked := time.Now()
	hold, lctx, err := lock.Lock(ctx)
	f.waited(time.Since(asked))
	if err != nil {
		f.failed("acquire", err)
		time.Sleep(time.Millisecond)
		return
	}
	f.mu.Lock()
	f.grants++
	f.noteLocked(name, "acquired", hold, fmt.Sprint("asked ", stamp(asked)))
	if other := f.in[name]; other != nil && other.Valid() && hold.Valid() {
		f.double = append(f.double, name)
		t.Logf("%s is held twice, by %s and %s:\n%s\n%s", name, other.Owner(), hold.Owner(), strings.Join(f.events[""], "\n"), strings.Join(f.events[name], "\n"))
	}
	f.in[name] = hold
	f.mu.Unlock()
	select {
	case <-lctx.Done():
	case <-time.After(keep):
	}
	f.mu.Lock()
	if f.in[name] == hold {
		delete(f.in, name)
	}
	f.noteLocked(name, "unlocks", hold, fmt.Sprint(context.Cause(lctx)))
	f.mu.Unlock()
	if err = hold.Unlock(); err != nil {
		f.failed("release", err)
	}
	f.note(name, "unlocked", hold, fmt.Sprint(err))
}

// note keeps an event of a hold, or of the servers with nil, for the story of one that should not have been.
func (f *fleet) note(name, what string, hold *mortise.Hold, more string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noteLocked(name, what, hold, more)
}

func (f *fleet) noteLocked(name, what string, hold *mortise.Hold, more string) {
	text := fmt.Sprintf("%s %s", stamp(time.Now()), what)
	if hold != nil {
		text += fmt.Sprintf(" %s, until %s", hold.Owner(), stamp(hold.Until()))
	}
	list := append(f.events[name], text+", "+more)
	f.events[name] = list[max(len(list)-40, 0):]
}

func stamp(t time.Time) string { return t.Format("04:05.000") }

func (f *fleet) waited(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.longest = max(f.longest, d)
}

func (f *fleet) failed(what string, err error) {
	for _, class := range []error{mortise.ErrNotDurable, mortise.ErrLost, mortise.ErrUnknownOutcome, mortise.ErrUnreachable, mortise.ErrLocked} {
		if errors.Is(err, class) {
			what += ": " + class.Error()
			break
		}
	}
	if !errors.Is(err, mortise.ErrNotDurable) {
		what += " (" + err.Error() + ")"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs[what[:min(len(what), 300)]]++
}

// twice returns how many were held twice.
func (f *fleet) twice() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.double)
}

// held returns how many names are held now.
func (f *fleet) held() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.in {
		if h.Valid() {
			n++
		}
	}
	return n
}

// granted returns how often a lock was acquired.
func (f *fleet) granted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.grants
}

// goOn waits until so many more locks were acquired, and some are held.
func (f *fleet) goOn(t *testing.T, grants int) {
	t.Helper()
	want := f.granted() + grants
	redistest.Eventually(t, "locks are acquired again", func() error {
		if f.granted() < want || f.held() == 0 {
			return errors.New("too few")
		}
		return nil
	})
}

// anchor ends it, and fails the test if a name was held twice.
func (f *fleet) anchor(t *testing.T) {
	t.Helper()
	f.stop.Store(true)
	f.sailed.Wait()
	if len(f.double) > 0 {
		slices.Sort(f.double)
		t.Errorf("held twice: %q", slices.Compact(f.double))
	}
}
