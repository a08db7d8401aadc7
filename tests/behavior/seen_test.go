package behavior

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// events is an observer that keeps what it is told.
type events struct {
	mu  sync.Mutex
	all []mortise.Event
}

func (o *events) Observe(e mortise.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, e)
}

// of returns the events of a type.
func (o *events) of(t mortise.EventType) (list []mortise.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.all {
		if e.Type == t {
			list = append(list, e)
		}
	}
	return list
}

// story returns the types of the events, but for renewals.
func (o *events) story() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var words []string
	for _, e := range o.all {
		if e.Type != mortise.EventRenewed {
			words = append(words, string(e.Type))
		}
	}
	return strings.Join(words, " ")
}

// seenAs are options of a client on a host of that name.
func seenAs(host string) *mortise.Options {
	return &mortise.Options{Identity: mortise.Identity{Host: host, App: "deploy"}}
}

func TestShortHoldsAreNotRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, seenAs("api-7"))
		for range 100 {
			hold, _ := mustLock(t, c.Lock("job"), t.Context())
			time.Sleep(10 * time.Millisecond)
			mustUnlock(t, hold)
		}
		time.Sleep(time.Minute)
		if n := f.Told(); n != 0 {
			t.Errorf("holds of 10ms took %d scripts to tell of them, want none", n)
		}
	})
}

// wantText compares what was seen, as text.
func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// hostOf returns the host of a client, if that is known.
func hostOf(c *mortise.ClientInfo) string {
	if c == nil {
		return "nobody knows"
	}
	return c.Host + " " + c.App
}

// clientsText returns what all clients hold and wait for.
func clientsText(t *testing.T, c *mortise.Client) string {
	t.Helper()
	all, err := c.Clients(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range all {
		line := c.Host + ":"
		for _, h := range c.Holds {
			line += " has " + h.Kind + " " + h.Lock
		}
		for _, w := range c.Waits {
			line += " waits for " + w.Kind + " " + w.Lock
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func TestRecordTellsWhatAClientHoldsAndWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, fa := open(t, s, seenAs("api-7"))
		b, _ := open(t, s, seenAs("api-8"))
		hold, _ := mustLock(t, a.Lock("job"), t.Context())
		waits := later(t, t.Context(), b.Lock("job"))
		time.Sleep(999 * time.Millisecond)
		wantText(t, "the clients", clientsText(t, b), "api-7: has lock job, api-8: waits for lock job")
		told := fa.Told()
		time.Sleep(10 * time.Minute)
		if n := fa.Told() - told; n > 2*60+5 {
			t.Errorf("ten quiet minutes took %d scripts, want about two for each ten seconds", n)
		}
		mustUnlock(t, hold)
		mustUnlock(t, <-waits)
		time.Sleep(5 * time.Second)
		wantText(t, "idle clients", clientsText(t, b), "")
		if keys := do(t, s, "KEYS", "*"); keys.Len() != 0 {
			t.Errorf("idle clients left %v", keys)
		}
	})
}

func TestHolderAndWaiterAreProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, seenAs("api-7"))
		b, _ := open(t, s, seenAs("api-8"))
		start := time.Now()
		hold, _ := mustLock(t, a.Lock("job"), t.Context())
		waits := later(t, t.Context(), b.Lock("job"))
		time.Sleep(999 * time.Millisecond)
		st, err := b.Lock("job").Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h := st.Holders[0]
		wantText(t, "the holder", hostOf(h.Client), "api-7 deploy")
		if h.Since.Sub(start).Abs() > 5*time.Millisecond || st.Now.Sub(h.Since).Round(time.Second) != time.Second {
			t.Errorf("it has the lock since %v, now is %v; want %v", h.Since, st.Now, start)
		}
		_, _, err = b.Lock("job").TryLock(t.Context())
		if text := fmt.Sprint(err); !strings.Contains(text, fmt.Sprintf("api-7 pid %d (deploy) for 1s", os.Getpid())) {
			t.Errorf("the error is %q", text)
		}
		q, err := a.Queue(t.Context(), "job")
		if err != nil || len(q.Waiters) != 1 || q.Listeners != 0 {
			t.Fatalf("the queue is %+v, %v; want one waiter", q, err)
		}
		wantText(t, "the waiter", hostOf(q.Waiters[0].Client), "api-8 deploy")
		mustUnlock(t, hold)
		mustUnlock(t, <-waits)
	})
}

func TestHiddenClientTellsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{Identity: mortise.Identity{Hide: true}})
		mustLock(t, c.Lock("job"), t.Context())
		time.Sleep(time.Minute)
		if n := f.Told(); n != 0 {
			t.Errorf("it sent %d scripts that tell of it", n)
		}
	})
}

// eventText returns what an event says, with times in whole seconds.
func eventText(e mortise.Event) string {
	return fmt.Sprintf("%s %s %s how=%s waited=%.0f held=%.0f queued=%v context=%v call=%v err=%v",
		e.Type, e.Kind, e.Lock, e.How, e.Waited.Seconds(), e.Held.Seconds(), e.Queued, e.Context != nil, e.Call != 0, e.Err)
}

func TestEventsOfAHold(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var oa, ob events
		a, _ := open(t, s, &mortise.Options{Observer: &oa})
		b, _ := open(t, s, &mortise.Options{Observer: &ob})
		hold, _ := mustLock(t, a.Lock("job"), t.Context())
		got := later(t, t.Context(), b.Lock("job"))
		if _, _, err := b.Lock("job").TryLock(t.Context()); err == nil {
			t.Fatal("TryLock acquired a lock that is held")
		}
		time.Sleep(time.Minute)
		mustUnlock(t, hold)
		mustUnlock(t, <-got)
		synctest.Wait()
		wantText(t, "the holder was told", oa.story(), "acquired released")
		wantText(t, "the waiter was told", ob.story(), "waiting refused acquired released")
		e := ob.of(mortise.EventAcquired)[0]
		wantText(t, "told", eventText(e), "acquired lock job how=granted waited=60 held=0 queued=true context=true call=true err=<nil>")
		if e.Blocker == nil || e.Blocker.Owner != hold.Owner() || e.Blocker.Client == nil {
			t.Errorf("it was blocked by %+v, want the first", e.Blocker)
		}
		wantText(t, "told", eventText(oa.of(mortise.EventReleased)[0]), "released lock job how= waited=0 held=60 queued=false context=true call=true err=<nil>")
		renewed := oa.of(mortise.EventRenewed)
		if len(renewed) < 5 || renewed[0].Margin < 15*time.Second || renewed[0].Margin > 25*time.Second {
			t.Fatalf("renewed: %+v", renewed)
		}
		wantText(t, "told", fmt.Sprint(renewed[0].Leases, renewed[0].Lock), "1job")
		st := b.Stats()
		wantText(t, "the waiter counted", fmt.Sprint(st.Acquired, st.Refused, st.Granted, st.Held, st.Waiting), "1 1 1 0 0")
	})
}

// A refusal is told with the process of the holder, as the caller gets it.
func TestRefusalIsToldWithTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var o events
		a, _ := open(t, s, seenAs("api-7"))
		b, _ := open(t, s, &mortise.Options{Observer: &o})
		mustLock(t, a.Lock("job"), t.Context())
		_, _, early := b.Lock("job").TryLock(t.Context())
		if early == nil {
			t.Fatal("TryLock acquired a lock that is held")
		}
		time.Sleep(1500 * time.Millisecond) // meanwhile the holder has a record
		_, _, err := b.Lock("job").TryLock(t.Context())
		if e := o.of(mortise.EventRefused)[1]; !strings.Contains(fmt.Sprint(e.Err), "api-7 pid") || !strings.Contains(fmt.Sprint(err), "api-7 pid") {
			t.Errorf("the caller got %v, and observers %v; want the host in both", err, e.Err)
		}
	})
}

func TestFailingRenewalsAreToldBeforeTheLoss(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var o events
		c, f := open(t, s, &mortise.Options{Observer: &o})
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		time.Sleep(time.Second)
		f.Set(hang, nil)
		start := time.Now()
		<-ctx.Done()
		lost := time.Since(start)
		f.Set(nil, nil)
		synctest.Wait()
		failing := o.of(mortise.EventRenewalFailing)
		if len(failing) == 0 || failing[0].Margin < 5*time.Second || failing[0].Err == nil || failing[0].Lock != "job" {
			t.Errorf("the lock was lost after %v, and failing renewals were told as %+v", lost, failing)
		}
		if e := o.of(mortise.EventLost); len(e) != 1 || !errors.Is(e[0].Err, mortise.ErrLost) || e[0].Held < 25*time.Second {
			t.Errorf("lost: %+v", e)
		}
		_ = hold.Unlock()
		if e := o.of(mortise.EventReleased); len(e) != 0 {
			t.Errorf("a lost hold was told as released: %+v", e)
		}
	})
}

func TestHolderIsAsked(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, seenAs("api-7"))
		b, _ := open(t, s, seenAs("ops"))
		hold, ctx := mustLock(t, a.Lock("job"), t.Context())
		here := later(t, t.Context(), a.Lock("job"))
		there := later(t, t.Context(), b.Lock("job"))
		time.Sleep(time.Second)
		asked, err := b.Ask(t.Context(), "job", "deploy of 12:00")
		if err != nil || len(asked) != 1 || !asked[0].Asked || asked[0].Owner != hold.Owner() {
			t.Fatalf("asked %+v, %v", asked, err)
		}
		clients, err := b.Clients(t.Context())
		i := slices.IndexFunc(clients, func(c mortise.ClientState) bool { return c.Host == "api-7" })
		if want := (mortise.ClientRequest{Owner: hold.Owner(), By: fmt.Sprintf("ops pid %d", os.Getpid()), Reason: "deploy of 12:00"}); err != nil || i < 0 || !slices.Equal(clients[i].Asked, []mortise.ClientRequest{want}) {
			t.Fatalf("the clients are %+v, %v; want one asked %+v", clients, err, want)
		}
		time.Sleep(time.Second)
		var why *mortise.RevokedError
		if err := context.Cause(ctx); !errors.As(err, &why) || !errors.Is(err, mortise.ErrRevoked) || why.Reason != "deploy of 12:00" || !strings.HasPrefix(why.By, "ops pid") {
			t.Fatalf("the context of the hold ended with %v", err)
		}
		if !hold.Valid() {
			t.Error("the hold is not valid any more, although nobody else has the lock")
		}
		time.Sleep(5 * time.Minute)
		wantState(t, a.Lock("job"), hold.Owner(), 1)
		mustUnlock(t, hold)
		h := <-there // it is not handed off to a goroutine of the client that was asked
		mustUnlock(t, h)
		mustUnlock(t, <-here)
	})
}

// A wait that ends by its limit names the process of the holder, also if both began at the same time, and
// if the client was refused before the holder had a record.
func TestWaitThatEndsNamesTheHolder(t *testing.T) {
	for _, wait := range []time.Duration{700 * time.Millisecond, time.Second, 1500 * time.Millisecond, 3 * time.Second} {
		for _, tries := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, after a TryLock: %v", wait, tries), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					var o events
					a, _ := open(t, s, seenAs("api-7"))
					b, _ := open(t, s, &mortise.Options{Observer: &o})
					mustLock(t, a.Lock("job"), t.Context())
					if tries {
						_, _, _ = b.Lock("job").TryLock(t.Context())
					}
					start := time.Now()
					_, _, err := b.Lock("job").With(mortise.LockOptions{Wait: wait}).Lock(t.Context())
					if !strings.Contains(fmt.Sprint(err), "api-7 pid") || time.Since(start) > wait {
						t.Errorf("after %v: %v; want the host of the holder, and after %v", time.Since(start), err, wait)
					}
				})
			})
		}
	}
}

// Each request is told, also one with the same words for a hold that was asked before. A goroutine to
// which the lease is handed off meanwhile was not asked.
func TestEachRequestIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var asked atomic.Int32
		opt := seenAs("api-7")
		opt.OnAsk = func(*mortise.Hold, *mortise.RevokedError) { asked.Add(1) }
		a, _ := open(t, s, opt)
		b, _ := open(t, s, seenAs("ops"))
		hold, _ := mustLock(t, a.Lock("job"), t.Context())
		time.Sleep(time.Second)
		for range 4 {
			if got, err := b.Ask(t.Context(), "job", "again"); err != nil || len(got) != 1 || !got[0].Asked {
				t.Fatalf("asked %+v, %v", got, err)
			}
			time.Sleep(1500 * time.Millisecond)
		}
		if n := asked.Load(); n != 4 {
			t.Errorf("the holder was told of %d requests, want 4", n)
		}
		next := later(t, t.Context(), a.Lock("job"))
		if _, err := b.Ask(t.Context(), "job", "once more"); err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, hold) // before the client has seen that
		h := <-next
		time.Sleep(time.Minute)
		if n := asked.Load(); n != 4 || !h.Valid() {
			t.Errorf("a goroutine that was handed the lease was asked as well: %d requests were told", n)
		}
		mustUnlock(t, h)
	})
}

func TestWaitsInACycleAreTold(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				var o events
				failed := cycleOf(t, s, n, &o)
				start := time.Now()
				select {
				case i := <-failed:
					wantText(t, "it failed", fmt.Sprint("host-", i), fmt.Sprint("host-", n-1)) // the youngest
				case <-time.After(time.Minute):
					t.Fatal("no wait has failed")
				}
				if d := time.Since(start); d > 2*time.Second {
					t.Errorf("it took %v to find the cycle", d)
				}
				var cycle *mortise.DeadlockError
				if e := o.of(mortise.EventDeadlock); len(e) == 0 || !errors.As(e[0].Err, &cycle) || len(cycle.Waits) != n {
					t.Fatalf("told: %+v", e)
				}
				for _, w := range cycle.Waits {
					if !strings.HasPrefix(w.Client.Host, "host-") || !strings.HasPrefix(w.Lock, "lock-") || w.Since.IsZero() {
						t.Errorf("a wait of the cycle is %+v", w)
					}
				}
			})
		})
	}
}

// cycleOf makes n clients wait for each other in a cycle. The channel receives those whose wait fails
// because of that.
func cycleOf(t *testing.T, s *memredis.Server, n int, o *events) <-chan int {
	t.Helper()
	failed := make(chan int, n)
	var clients []*mortise.Client
	var contexts []context.Context
	for i := range n {
		opt := seenAs(fmt.Sprint("host-", i))
		opt.Observer = o
		c, _ := open(t, s, opt)
		_, ctx := mustLock(t, c.Lock(fmt.Sprint("lock-", i)), t.Context())
		clients, contexts = append(clients, c), append(contexts, mortise.WithOwner(ctx))
	}
	for i, c := range clients {
		next := c.Lock(fmt.Sprint("lock-", (i+1)%n)).With(mortise.LockOptions{Deadlock: mortise.DeadlockFail})
		go func() {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			_, _, err := next.Lock(contexts[i])
			if errors.Is(err, mortise.ErrDeadlock) {
				failed <- i
			} else if t.Context().Err() == nil && !errors.Is(err, mortise.ErrClosed) {
				t.Errorf("the wait of host-%d ended with %v", i, err)
			}
		}()
	}
	return failed
}

func TestSemaphoresAndLatchesAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var o events
		c, _ := open(t, s, &mortise.Options{Observer: &o})
		sem := c.Semaphore("pool")
		if _, err := sem.TrySetPermits(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := sem.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- sem.Acquire(t.Context(), 1) }()
		time.Sleep(time.Second)
		all, err := c.Clients(t.Context())
		if err != nil || len(all) != 1 || len(all[0].Waits) != 1 || all[0].Waits[0].Kind != "semaphore" || all[0].Waits[0].Lock != "pool" {
			t.Errorf("the clients are %+v, %v; want one that waits for a permit", all, err)
		}
		if err := sem.Release(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if story := o.story(); story != "acquired waiting acquired" {
			t.Errorf("it was told: %s", story)
		}
	})
}

func TestWaitingGoroutinesHaveLabels(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, &mortise.Options{Observer: &events{}})
		hold, _ := mustLock(t, c.Lock("job"), t.Context())
		got := later(t, t.Context(), c.Lock("job"))
		var profile strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(profile.String(), `"mortise_lock":"job"`) {
			t.Error("no goroutine of the profile has the name of the lock")
		}
		mustUnlock(t, hold)
		mustUnlock(t, <-got)
	})
}

func TestDeadWaitersThatArePassedOverAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var o events
		a, _ := open(t, s, &mortise.Options{Observer: &o})
		dead, f := open(t, s, &mortise.Options{RetryFor: -1})
		hold, _, err := a.FairLock("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_ = later(t, ctx, dead.FairLock("job"))
		f.Set(hang, nil) // it dies in the queue
		time.Sleep(time.Minute)
		got := later(t, t.Context(), a.FairLock("job"))
		time.Sleep(time.Minute)
		mustUnlock(t, hold)
		mustUnlock(t, <-got)
		n := 0
		for _, e := range o.of(mortise.EventPassedOver) {
			n += e.Passed
			if e.Lock != "job" {
				t.Errorf("told: %+v", e)
			}
		}
		if n != 1 {
			t.Errorf("%d waiters were told as passed over, want 1", n)
		}
		f.Set(nil, nil)
	})
}

func TestCrowdThatIsRefusedReadsOneRecord(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, seenAs("api-7"))
		b, f := open(t, s, nil)
		mustLock(t, a.Lock("job"), t.Context())
		time.Sleep(time.Second)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				var held *mortise.HeldError
				if _, _, err := b.Lock("job").TryLock(t.Context()); !errors.As(err, &held) || held.Client == nil {
					t.Errorf("refused with %v, want the process of the holder", err)
				}
			})
		}
		all.Wait()
		if n := f.Told(); n != 1 {
			t.Errorf("100 refusals at once read %d records, want 1", n)
		}
	})
}

// The name of the holder is not worth a wait beyond the end of the caller's context.
func TestTryEndsWithItsContextWhileTheHolderIsLookedUp(t *testing.T) {
	const patience = 100 * time.Millisecond
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		a, _ := open(t, s, seenAs("api-7"))
		b, f := open(t, s, nil)
		must(t, k.Open(a, "job", mortise.LockOptions{}), t.Context())
		f.Set(func(ctx context.Context, script string) error {
			if script != "client_read" {
				return nil
			}
			return hang(ctx, script)
		}, nil)
		for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, patience)
			},
			"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(patience, cancel)
				return ctx, cancel
			},
		} {
			ctx, cancel := end(t.Context())
			start := time.Now()
			_, _, err := k.Open(b, "job", mortise.LockOptions{}).TryLock(ctx)
			if took := time.Since(start); took != patience || !errors.Is(err, mortise.ErrLocked) || !errors.Is(err, ctx.Err()) {
				t.Errorf("%s: after %v: %v, want a refusal that ends with the context, after %v", name, took, err, patience)
			}
			cancel()
		}
		f.Set(nil, nil)
	})
}

// What a process runs under its locks is what tells it from others of the same program: wherever it is named, that is
// named, too.
func TestCommandIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, &mortise.Options{History: 5, Identity: mortise.Identity{Host: "api-7", App: "mortise", Extra: map[string]string{"command": "pay now.sh"}}})
		b, _ := open(t, s, seenAs("api-8"))
		hold, _ := mustLock(t, a.Lock("job"), t.Context())
		time.Sleep(999 * time.Millisecond)
		_, _, err := b.Lock("job").TryLock(t.Context())
		if text := fmt.Sprint(err); !strings.Contains(text, fmt.Sprintf("api-7 pid %d (mortise: \"pay now.sh\") for 1s", os.Getpid())) {
			t.Errorf("the error is %q", text)
		}
		var held *mortise.HeldError
		if !errors.As(err, &held) {
			t.Fatalf("the error is %v, want one with the holder", err)
		}
		want := fmt.Sprintf("api-7 pid %d (mortise: \"pay now.sh\")", os.Getpid())
		wantText(t, "a holder by value", fmt.Sprint(held.Holder), want)
		wantText(t, "a client by value", fmt.Sprint(*held.Client), want)
		mustUnlock(t, hold)
		time.Sleep(3 * time.Second)
		list, err := b.History(t.Context(), "job", 5)
		if err != nil || len(list) != 1 || list[0].App != "mortise" || list[0].Command != "pay now.sh" {
			t.Errorf("its history is %+v, %v; want one acquisition by pay now.sh", list, err)
		}
	})
}
