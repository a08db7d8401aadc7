package watch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	_ "github.com/mortise-go/mortise/internal/minired/lean"
	"github.com/mortise-go/mortise/mortisetest"
	"github.com/mortise-go/mortise/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a Redis in virtual time that a Watcher watches.
type bench struct {
	*mortisetest.Server
	t    *testing.T
	link *mortisetest.Link
	sent *counter
	w    *watch.Watcher
	end  func() error

	looks  told[*watch.Look]
	notes  told[string]
	events told[string]

	endsWithAnEvent atomic.Bool
}

// told is what a Watcher has told.
type told[T any] struct {
	mu   sync.Mutex
	what []T
}

func (l *told[T]) add(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.what = append(l.what, v)
}

// all returns what was told so far.
func (l *told[T]) all() []T {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.what)
}

// counter counts the commands of a driver.
type counter struct {
	driver.Driver
	driver.Scanner
	n atomic.Int64
}

func (c *counter) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	c.n.Add(1)
	return c.Driver.Eval(ctx, call)
}

func (c *counter) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	c.n.Add(int64(len(calls)))
	return c.Driver.Batch(ctx, calls)
}

func watched(t *testing.T, o watch.Options, f func(b *bench)) {
	watchedBy(t, o, func(l *mortisetest.Link) scanningDriver { return l }, f)
}

type scanningDriver interface {
	driver.Driver
	driver.Scanner
}

// watchedBy is watched with a driver made of a link.
func watchedBy(t *testing.T, o watch.Options, by func(l *mortisetest.Link) scanningDriver, f func(b *bench)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		b := &bench{Server: s, t: t, link: s.Link()}
		d := by(b.link)
		b.sent = &counter{Driver: d, Scanner: d}
		ctx, cancel := context.WithCancelCause(t.Context())
		o.Look = b.looks.add
		o.Note = func(n *watch.Note) { b.notes.add(n.String()) }
		o.Event = func(e *watch.Event) {
			b.events.add(fmt.Sprint(e.Type, " ", e.Lock, " ", e.Party.Host))
			if b.endsWithAnEvent.Load() {
				cancel(errEnd)
			}
		}
		b.w = watch.New(b.sent, &o)
		done := make(chan error, 1)
		b.end = func() error {
			cancel(errEnd)
			err := <-done
			done <- err
			return err
		}
		defer func() {
			_ = b.end()
			if err := b.w.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		go func() { done <- b.w.Run(ctx) }()
		f(b)
	})
}

var errEnd = errors.New("the end of the test")

// client returns a client on a host.
func (b *bench) client(host string) *mortise.Client {
	c := mortise.New(b.Link(), &mortise.Options{Identity: mortise.Identity{Host: host, App: "test"}})
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// last returns what was seen last.
func (b *bench) last() *watch.Look {
	b.t.Helper()
	looks := b.looks.all()
	if len(looks) == 0 {
		b.t.Fatal("there was no look")
	}
	return looks[len(looks)-1]
}

// seen returns how many looks there were.
func (b *bench) seen() int {
	return len(b.looks.all())
}

func (b *bench) lock(c *mortise.Client, name string) *mortise.Hold {
	b.t.Helper()
	hold, _, err := c.Lock(name).Lock(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return hold
}

// A look shows processes that hold and wait, those that hurt most first.
func TestWatcher(t *testing.T) {
	watched(t, watch.Options{}, func(b *bench) {
		a, c := b.client("api-7"), b.client("db-2")
		b.lock(c, "migrate")
		deploy := b.lock(a, "deploy")
		began := time.Now()
		go b.await(c, "deploy")
		b.w.Show([]string{"deploy", "migrate", "no such lock"})
		time.Sleep(5 * time.Second)
		look := b.last()
		locks := look.Locks()
		if len(locks) != 2 || locks[0].Name != "deploy" || locks[1].Name != "migrate" {
			t.Fatalf("the locks are %+v, want deploy, which has a waiter, and migrate", locks)
		}
		b.wantQueue(&locks[0], "api-7", "db-2", began)
		for _, l := range locks {
			if left := l.Holds[0].Until.Sub(look.At); left < 19*time.Second || left > 30*time.Second {
				t.Errorf("the lease of %s lasts for another %v, want what is left of 30s", l.Name, left)
			}
		}
		if len(look.Clients) != 2 {
			t.Errorf("%d clients, want 2", len(look.Clients))
		}
		if err := deploy.Unlock(); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		if got := b.last().Locks(); len(got) != 2 || len(got[0].Waits) != 0 {
			t.Errorf("after the release the locks are %+v", got)
		}
		b.wantTold("acquired migrate db-2", "acquired deploy api-7", "waiting deploy db-2", "released deploy api-7", "granted deploy db-2")
		if s := b.w.Load().Search; s == nil || s.Passes == 0 || s.Err != nil {
			t.Errorf("the search is %+v, want at least one pass", s)
		}
		if err := b.end(); !errors.Is(err, errEnd) {
			t.Errorf("Run returns %v, want the cause of the end of its context", err)
		}
	})
}

// await waits for a lock until the end of the test, and keeps it.
func (b *bench) await(c *mortise.Client, name string) { _, _, _ = c.Lock(name).Lock(b.t.Context()) }

// wantQueue demands that a lock has a holder and a waiter, who has waited since then.
func (b *bench) wantQueue(l *watch.Lock, holder, waiter string, since time.Time) {
	b.t.Helper()
	if l.Kind != "lock" || len(l.Holds) != 1 || l.Holds[0].Party.Host != holder || !l.Holds[0].Exact || len(l.Waits) != 1 || l.Waits[0].Party.Host != waiter {
		b.t.Fatalf("%s is %+v, want held by %s, with %s waiting", l.Name, l, holder, waiter)
	}
	if oldest := l.OldestWait(); oldest.Sub(since).Abs() > time.Second {
		b.t.Errorf("the oldest wait began %v after it did", oldest.Sub(since))
	}
}

// wantTold demands events, in any order.
func (b *bench) wantTold(events ...string) {
	b.t.Helper()
	for _, want := range events {
		if events := b.events.all(); !slices.Contains(events, want) {
			b.t.Errorf("no event %q among %q", want, events)
		}
	}
}

// A lock that no record tells of is found by the search.
func TestWatcherFindsRedissonsLocks(t *testing.T) {
	watched(t, watch.Options{Pattern: "ja*"}, func(b *bench) {
		const owner = "8f1c2b3a-0000-4000-8000-000000000001:77"
		for _, name := range []string{"java", "other"} {
			if _, err := b.Do("HSET", name, owner, "1"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		locks := b.last().Locks()
		if len(locks) != 1 || locks[0].Name != "java" || locks[0].Holds[0].Party.Owner != owner || locks[0].Holds[0].Party.Named() {
			t.Errorf("the locks are %+v, want java, held by %s", locks, owner)
		}
	})
}

// A search among many keys lasts for longer than a client waits for an answer: it finds what there is, however small the load.
func TestWatcherFindsALockAmongManyKeys(t *testing.T) {
	watched(t, watch.Options{Load: 2}, func(b *bench) {
		for i := range 3000 {
			if _, err := b.Do("SET", fmt.Sprint("other:", i), "x"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Do("HSET", "zz", "8f1c2b3a-0000-4000-8000-000000000001:77", "1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if locks := b.last().Locks(); len(locks) != 1 || locks[0].Name != "zz" {
			t.Errorf("the locks are %+v, want zz; the search is %+v", locks, b.w.Load().Search)
		}
		if s := b.w.Load().Search; s.Err != nil || s.Passes == 0 {
			t.Errorf("the search is %+v, want no error, and an end", s)
		}
	})
}

// Two searches show all of a thousand locks that no record tells of, and the looks after the next one that some have ended.
func TestWatcherShowsAThousandOfRedissonsLocks(t *testing.T) {
	watched(t, watch.Options{Load: 300}, func(b *bench) {
		const locks, ended = 1000, 100
		name := func(i int) string { return fmt.Sprintf("order:%d", i) }
		for i := range locks {
			if _, err := b.Do("HSET", name(i), "8f1c2b3a-0000-4000-8000-000000000001:77", "1"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		if shown := len(b.last().Locks()); shown != locks {
			t.Errorf("%d locks are shown after %+v, want %d", shown, b.w.Load().Search, locks)
		}
		for i := range ended {
			if _, err := b.Do("DEL", name(i*7)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if shown := len(b.last().Locks()); shown != locks-ended {
			t.Errorf("%d locks are shown after the end of %d of %d", shown, ended, locks)
		}
	})
}

// It sends no more than it may, and says so if that makes it slow.
func TestWatcherKeepsToItsLoad(t *testing.T) {
	watched(t, watch.Options{Load: 10}, func(b *bench) {
		for i := range 40 {
			c := b.client(fmt.Sprint("host-", i))
			b.lock(c, fmt.Sprint("job-", i))
		}
		time.Sleep(10 * time.Second)
		before, looks := b.sent.n.Load(), b.seen()
		time.Sleep(time.Minute)
		synctest.Wait()
		sent := b.sent.n.Load() - before
		if sent > 60*10+60 { // what one look reads may be ahead of its time
			t.Errorf("%d commands in a minute, want at most 10 a second", sent)
		}
		if b.seen() == looks {
			t.Error("it has not looked for a minute")
		}
		l := b.w.Load()
		if l.Bound != 10 || l.Commands == 0 || l.PerSecond > 12 || l.PerSecond < 1 {
			t.Errorf("it says that its load is %+v", l)
		}
		if notes := b.notes.all(); !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "looking every") }) {
			t.Errorf("it does not say that it looks seldom: %q", notes)
		}
	})
}

// While nobody looks at it, a Watcher looks every ten seconds; then at once.
func TestWatcherRests(t *testing.T) {
	watched(t, watch.Options{Every: time.Second, Pattern: "job"}, func(b *bench) {
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := b.seen(); n < 9 || n > 11 {
			t.Errorf("%d looks in ten seconds, want one a second", n)
		}
		b.w.Idle(true)
		time.Sleep(11 * time.Second)
		before := b.seen()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := b.seen() - before; n < 5 || n > 7 {
			t.Errorf("%d looks in a minute, want one in ten seconds", n)
		}
		before = b.seen()
		b.w.Idle(false)
		synctest.Wait()
		if b.seen() != before+1 {
			t.Error("it does not look at once when somebody looks at it")
		}
		b.w.Now()
		synctest.Wait()
		if b.seen() != before+2 {
			t.Error("it does not look at once when it is asked to")
		}
		if b.w.Load().Search != nil {
			t.Error("it searches all keys for one name")
		}
	})
}

// While Redis cannot be read it says so, keeps what it knew, and goes on later.
func TestWatcherWithoutRedis(t *testing.T) {
	watched(t, watch.Options{Pattern: "job"}, func(b *bench) {
		b.lock(b.client("api-7"), "job")
		time.Sleep(3 * time.Second)
		if n := len(b.last().Locks()); n != 1 {
			t.Fatalf("%d locks, want one", n)
		}
		b.link.Partition()
		time.Sleep(20 * time.Second)
		looks := b.seen()
		if l := b.w.Load(); l.Err == nil || l.Failures == 0 || !errors.Is(l.Err, mortise.ErrUnreachable) && driver.ClassOf(l.Err) == driver.Other {
			t.Errorf("its load is %+v, want the error", l)
		}
		b.link.Heal()
		time.Sleep(5 * time.Second)
		if l := b.w.Load(); l.Err != nil || b.seen() <= looks {
			t.Errorf("after the end of the partition there were %d looks, and the error is %v", b.seen()-looks, l.Err)
		}
		var said []string
		for _, n := range b.notes.all() {
			said = append(said, n[:min(len(n), 24)])
		}
		if want := []string{"Redis cannot be read, go", "Redis can be read again "}; !slices.Equal(said, want) {
			t.Errorf("it notes %q", b.notes.all())
		}
	})
}

// Nothing is called any more after an event has ended the context.
func TestWatcherEndsWithAnEvent(t *testing.T) {
	watched(t, watch.Options{Pattern: "job*"}, func(b *bench) {
		c := b.client("api-7")
		b.endsWithAnEvent.Store(true)
		for i := range 3 {
			b.lock(c, fmt.Sprint("job", i))
		}
		time.Sleep(5 * time.Second)
		if events := b.events.all(); len(events) != 1 {
			t.Errorf("it tells %q, want one event", events)
		}
	})
}

// denying is a driver whose server refuses all scripts.
type denying struct {
	driver.Driver
	class driver.Class
}

func (d denying) Eval(context.Context, driver.Call) (driver.Value, error) {
	return driver.Value{}, &driver.Error{Class: d.class, Err: errors.New("refused")}
}

// What does not pass ends a Watcher.
func TestWatcherThatIsRefused(t *testing.T) {
	for class, want := range map[driver.Class]error{driver.Denied: mortise.ErrDenied, driver.NoScripts: mortise.ErrNoScripts} {
		t.Run(class.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mortisetest.NewServer()
				defer s.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				w := watch.New(denying{s.Link(), class}, &watch.Options{Pattern: "job"})
				defer w.Close()
				if err := w.Run(ctx); !errors.Is(err, want) {
					t.Errorf("Run returns %v, want %v", err, want)
				}
			})
		})
	}
}

// Why nothing was read is an error of the library, whatever was asked.
func TestWatcherSaysThatRedisIsAway(t *testing.T) {
	watched(t, watch.Options{}, func(b *bench) {
		b.link.Freeze()
		defer b.link.Thaw()
		time.Sleep(time.Minute)
		if err := b.w.Load().Err; !errors.Is(err, mortise.ErrUnreachable) {
			t.Errorf("it says %v, want ErrUnreachable", err)
		}
	})
}

// Locks that hurt most come first, and what is equal keeps its place.
func TestLocksByPain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	s := &watch.Snapshot{Holds: map[watch.HoldKey]*watch.Hold{}, Waits: map[watch.WaitKey]*watch.Wait{}}
	hold := func(name string, since int) {
		h := &watch.Hold{Lock: name, Kind: "lock", Party: watch.Party{Owner: "o"}, Since: at.Add(time.Duration(since) * time.Second)}
		s.Holds[watch.HoldKey{Lock: name, Owner: "o"}] = h
	}
	wait := func(name string, n, since int) {
		for i := range n {
			s.Waits[watch.WaitKey{Lock: name, Nth: i}] = &watch.Wait{Lock: name, Kind: "lock", Since: at.Add(time.Duration(since+i) * time.Second)}
		}
	}
	hold("old", 1)
	hold("young", 9)
	hold("also young", 9)
	hold("one waits", 9)
	wait("one waits", 1, 5)
	hold("one waits longer", 9)
	wait("one waits longer", 1, 4)
	wait("three wait", 3, 8)
	var got []string
	for _, l := range s.Locks() {
		got = append(got, l.Name)
	}
	if want := []string{"three wait", "one waits longer", "one waits", "old", "also young", "young"}; !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
}
