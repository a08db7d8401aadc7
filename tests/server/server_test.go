package server

// What virtual time cannot show: real servers, real connections that break,
// real processes that freeze. Every test runs with each driver.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
)

// dialers opens a driver of each kind for a single server.
var dialers = map[string]func(t *testing.T, addr, password string) driver.Driver{
	"goredis": func(t *testing.T, addr, password string) driver.Driver {
		rdb := redis.NewClient(&redis.Options{Addr: addr, Password: password})
		t.Cleanup(func() { rdb.Close() })
		return goredis.Wrap(rdb)
	},
	"rueidis": func(t *testing.T, addr, password string) driver.Driver {
		rdb, err := rueidisclient.NewClient(rueidisclient.ClientOption{
			InitAddress: []string{addr}, Password: password, ConnWriteTimeout: 3 * time.Second,
			RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10, DisableCache: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(rdb.Close)
		return rueidis.Wrap(rdb)
	},
}

// eachDriver runs f with each driver, on a server of its own.
func eachDriver(t *testing.T, f func(t *testing.T, s *redistest.Server, dial func(addr string, o *mortise.Options) *mortise.Client)) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Single(t)
			f(t, s, func(addr string, o *mortise.Options) *mortise.Client {
				c := mortise.New(open(t, addr, ""), o)
				t.Cleanup(func() { _ = c.Close() }) // may be closed by the test itself
				return c
			})
		})
	}
}

// eachDriverInTime is eachDriver for a test that judges how long something takes. Each trial has a server of its own.
func eachDriverInTime(t *testing.T, f func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(addr string, o *mortise.Options) *mortise.Client)) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				f(t, b, redistest.Single(t), func(addr string, o *mortise.Options) *mortise.Client {
					c := mortise.New(open(t, addr, ""), o)
					t.Cleanup(func() { _ = c.Close() }) // may be closed by the test itself
					return c
				})
			})
		})
	}
}

// awaitRenewals waits until each of the holds, which the watchdog renews for
// lease, was renewed two leases after the renewal, or acquisition, that it
// stands on now, and reports whether they were. That one is lost meanwhile means that its renewal has come too late.
func awaitRenewals(t *testing.T, b *canary.Bounds, lease time.Duration, holds ...*mortise.Hold) (renewed bool) {
	t.Helper()
	renewed = true
	from := make([]time.Time, len(holds))
	for i, h := range holds {
		from[i] = h.Until()
	}
	redistest.Eventually(t, "every hold is renewed", func() error {
		for i, h := range holds {
			if !h.Valid() {
				t.Logf("%s lost %s: %v", h.Owner(), h.Name(), h.Unlock())
				b.Within("the next renewal", lease+time.Since(h.Until()), lease)
				renewed = false
				return nil
			}
			if got := h.Until().Sub(from[i]); got < 2*lease {
				return fmt.Errorf("%s has %s for %v longer, want %v", h.Owner(), h.Name(), got, 2*lease)
			}
		}
		return nil
	})
	return renewed
}

// wantNoKeys checks that no key is left but the records of clients, which have them while they wait for long.
func wantNoKeys(t *testing.T, s *redistest.Server) {
	t.Helper()
	keys := slices.DeleteFunc(s.Must(t, "KEYS", "*").([]any), func(key any) bool { return strings.HasPrefix(fmt.Sprint(key), "mortise:client") })
	if len(keys) != 0 {
		t.Errorf("keys are left: %v", keys)
	}
}

func TestRealExclusion(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		const clients, goroutines, rounds = 4, 4, 10
		counter := 0
		var all sync.WaitGroup
		for range clients {
			c := dial(s.Addr(), nil)
			for range goroutines {
				all.Go(func() {
					for range rounds {
						err := c.Lock("job").Do(t.Context(), func(context.Context) error {
							counter++ // unprotected but for the lock; -race looks on
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if want := clients * goroutines * rounds; counter != want {
			t.Errorf("the counter is %d, want %d", counter, want)
		}
		wantNoKeys(t, s)
	})
}

// The link stalls at several points of a lease. The context must end before
// Redis lets the key expire, with a margin for how long the test takes to look.
func TestRealStalledLink(t *testing.T) {
	const margin = 500 * time.Millisecond
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		var all sync.WaitGroup
		for i, stall := range []time.Duration{0, 300, 700, 1100, 1900} {
			p := redistest.NewProxy(t, s.Addr())
			c := dial(p.Addr(), &mortise.Options{TTL: 2 * time.Second})
			all.Go(func() {
				name := fmt.Sprint("job", i)
				hold, ctx, err := c.Lock(name).With(mortise.LockOptions{Margin: margin}).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				time.AfterFunc(stall*time.Millisecond, func() { p.Stall(redistest.Requests, redistest.Replies) })
				<-ctx.Done()
				left := time.Duration(s.Int(t, "PTTL", name)) * time.Millisecond // negative if it has expired
				b.Within("of the margin, the end of the context and a look", margin-left, margin)
				var lost *mortise.LostError
				if !errors.As(context.Cause(ctx), &lost) || lost.Reason != mortise.LostUnreachable {
					t.Errorf("the cause is %v, want ErrLost because Redis is unreachable", context.Cause(ctx))
				}
				if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
					t.Errorf("Unlock: %v, want ErrLost", err)
				}
			})
		}
		all.Wait()
	})
}

// The connection is cut after a script ran and before its reply arrived.
func TestRealLostReplies(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		p := redistest.NewProxy(t, s.Addr())
		c := dial(p.Addr(), nil)
		k := c.Lock("job")
		warm, ctx := mustLock(t, k, t.Context()) // every script is known to the server from here on
		inner, _ := mustLock(t, k, ctx)
		mustUnlock(t, inner)
		mustUnlock(t, warm)

		cut := p.LoseReply("job", 1)
		outer, ctx := mustLock(t, k, t.Context())
		<-cut
		if n := s.Str(t, "HGET", "job", outer.Owner()); n != "1" {
			t.Errorf("after a lost reply of the acquisition the count is %q, want 1", n)
		}
		cut = p.LoseReply("job", 1)
		inner, _ = mustLock(t, k, ctx)
		<-cut
		if n := s.Str(t, "HGET", "job", outer.Owner()); n != "2" {
			t.Errorf("after a lost reply of the re-entry the count is %q, want 2", n)
		}
		cut = p.LoseReply("job", 1)
		mustUnlock(t, inner)
		<-cut
		if n := s.Str(t, "HGET", "job", outer.Owner()); n != "1" {
			t.Errorf("after a lost reply of the partial unlock the count is %q, want 1", n)
		}
		cut = p.LoseReply("job", 1)
		if err := outer.Unlock(); !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("Unlock with a lost reply: %v, want ErrUnknownOutcome", err)
		}
		<-cut
		if n := s.Int(t, "EXISTS", "job"); n != 0 {
			t.Error("the lock is still there")
		}
	})
}

func TestRealScriptFlushAndRestart(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		c := dial(s.Addr(), &mortise.Options{TTL: 2 * time.Second})
		k := c.Lock("job")
		hold, _ := mustLock(t, k, t.Context())
		s.Must(t, "SCRIPT", "FLUSH")
		mustUnlock(t, hold)

		// A waiter outlives the restart; the holder is told that its lock went
		// with the server's memory.
		hold, ctx := mustLock(t, k, t.Context())
		got := make(chan *mortise.Hold)
		other := dial(s.Addr(), nil)
		go func() {
			h, _, err := other.Lock("job").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		redistest.Eventually(t, "a waiter is subscribed", func() error {
			if n := s.Subscribers(t); n != 1 {
				return fmt.Errorf("%d subscribers", n)
			}
			return nil
		})
		s.Restart(t)
		waiter := <-got
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), mortise.ErrLost) {
			t.Errorf("the cause is %v, want ErrLost", context.Cause(ctx))
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock of a lock that was forgotten: %v, want ErrLost", err)
		}
		if waiter != nil {
			mustUnlock(t, waiter)
		}
	})
}

// The subscription's connection dies in the moment of the release.
func TestRealLostSubscriptionIsNoStall(t *testing.T) {
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		holder, waiter := dial(s.Addr(), nil), dial(s.Addr(), nil)
		for range 5 {
			hold, _ := mustLock(t, holder.Lock("job"), t.Context())
			got := make(chan *mortise.Hold, 1)
			go func() {
				h, _, err := waiter.Lock("job").Lock(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- h
			}()
			redistest.Eventually(t, "a waiter is subscribed", func() error {
				if n := s.Subscribers(t); n != 1 {
					return fmt.Errorf("%d subscribers", n)
				}
				return nil
			})
			s.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
			start := time.Now()
			mustUnlock(t, hold)
			h := <-got
			b.Within("the hand-over", time.Since(start), 5*time.Second) // about a second at most, if nothing else is late
			mustUnlock(t, h)
		}
	})
}

func TestRealRefusals(t *testing.T) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			s := redistest.Single(t, "--requirepass", "secret")
			c := mortise.New(open(t, s.Addr(), "secret"), nil)
			defer c.Close()
			s.Must(t, "SET", "job", "5")
			if _, _, err := c.Lock("job").Lock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
				t.Errorf("Lock on a string: %v, want ErrWrongKind", err)
			}
			if v := s.Str(t, "GET", "job"); v != "5" {
				t.Errorf("the string is %q now, want it untouched", v)
			}
			s.Must(t, "CONFIG", "SET", "requirepass", "changed")
			s.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			_, _, err := c.Lock("free").Lock(t.Context())
			if !errors.Is(err, mortise.ErrDenied) {
				t.Errorf("Lock with the wrong password: %v, want ErrDenied", err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// A holder that was frozen past its lease must be told by the very first look
// at its context.
func TestRealFrozenHolder(t *testing.T) { canary.Judge(t, frozenHolder) }

func frozenHolder(t *testing.T, b *canary.Bounds) {
	s := redistest.Single(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHelperFrozenHolder$")
	cmd.Env = append(os.Environ(), "MORTISE_TEST_ADDR="+s.Addr())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	await := func(prefix string) string {
		t.Helper()
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("the holder ended without saying %q", prefix)
		return ""
	}
	await("holding")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c := mortise.New(dialers["rueidis"](t, s.Addr(), ""), nil)
	defer c.Close()
	frozen := time.Now()
	hold, _ := mustLock(t, c.Lock("job"), t.Context()) // as soon as the lease is over
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	least := time.Since(frozen)
	if got := await("woke: "); !strings.HasPrefix(got, "false true ") {
		t.Errorf("the first look after the freeze said %q, want not valid, and lost", got)
	}
	woke := time.Since(frozen) // the freeze is told a quarter of a second too short at most
	paused, err := time.ParseDuration(await("paused: "))
	if err != nil || paused < least-300*time.Millisecond {
		t.Errorf("a pause of %v was told (%v), want %v at least", paused, err, least)
	}
	b.Within("what was told of the pause beyond the freeze", paused-woke, time.Second)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the holder: %v", err)
	}
	mustUnlock(t, hold)
}

// TestHelperFrozenHolder is the process that TestRealFrozenHolder freezes. It
// looks at nothing but the clock, sees that time has jumped, and only then at
// its context.
func TestHelperFrozenHolder(t *testing.T) {
	addr := os.Getenv("MORTISE_TEST_ADDR")
	if addr == "" {
		return // not asked for
	}
	events := make(heard, 100)
	c := mortise.New(dialers["rueidis"](t, addr, ""), &mortise.Options{TTL: 3 * time.Second, Observer: events})
	defer c.Close()
	hold, ctx := mustLock(t, c.Lock("job"), t.Context())
	begin := time.Now()
	last := begin // before the message: the freeze may come at once
	fmt.Println("holding")
	for {
		now := time.Now()
		if now.Sub(last) > 1500*time.Millisecond {
			break
		}
		if now.Sub(begin) > time.Minute {
			t.Fatal("nobody froze this process")
		}
		last = now
	}
	err := ctx.Err()
	valid := hold.Valid()
	fmt.Println("woke:", valid, errors.Is(context.Cause(ctx), mortise.ErrLost), err)
	fmt.Println("paused:", events.next(t, mortise.EventPaused).Pause)
	if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("Unlock: %v, want ErrLost", err)
	}
}
