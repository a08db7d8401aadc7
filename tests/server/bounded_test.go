package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A frozen server answers nothing. Each call gives up as soon as RetryFor says, whether its context can end or not, and
// so does one that waits behind another. It leaves nothing.
func TestRealCallsAreBounded(t *testing.T) {
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, own *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		cancellable, cancel := context.WithCancel(t.Context())
		defer cancel()
		for patience, most := range map[time.Duration]time.Duration{time.Second: 1200 * time.Millisecond, 4 * time.Second: 7 * time.Second} {
			for what, ctx := range map[string]context.Context{"one that can end": cancellable, "one that cannot": context.Background()} {
				c := dial(own.Addr(), &mortise.Options{RetryFor: patience})
				if _, err := c.Lock("warm").Inspect(t.Context()); err != nil {
					t.Fatal(err)
				}
				own.Pause(t)
				start := time.Now()
				behind := make(chan time.Duration, 1)
				go func() {
					_, _, err := c.Lock("x").Lock(ctx)
					if !errors.Is(err, mortise.ErrUnreachable) {
						t.Errorf("Lock behind another: %v, want ErrUnreachable", err)
					}
					behind <- time.Since(start)
				}()
				_, _, err := c.Lock("x").Lock(ctx)
				took := time.Since(start)
				if !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Lock: %v, want ErrUnreachable", err)
				}
				b.Within("Lock for "+patience.String()+", with a context, "+what, took, most)
				b.Within("one behind it", <-behind, most)
				start = time.Now()
				if _, _, err := c.Lock("x").TryLock(ctx); !errors.Is(err, mortise.ErrUnreachable) {
					t.Errorf("TryLock: %v, want ErrUnreachable", err)
				}
				b.Within("TryLock for "+patience.String()+", with a context, "+what, time.Since(start), most)
				own.Resume(t)
				redistest.Eventually(t, "nothing is left", func() error {
					if n := own.Must(t, "EXISTS", "x"); n != int64(0) {
						return errors.New("the lock is held")
					}
					return nil
				})
			}
		}
	})
}

// A client that speaks TLS to a port that does not learns what may be wrong, in time.
func TestRealTLSOnAPlainPort(t *testing.T) {
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		s := redistest.Single(t)
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}})
		t.Cleanup(func() { _ = rdb.Close() })
		c := mortise.New(goredis.Wrap(rdb), &mortise.Options{RetryFor: 2 * time.Second})
		t.Cleanup(func() { _ = c.Close() })
		for what, ctx := range map[string]context.Context{"one that can end": t.Context(), "one that cannot": context.Background()} {
			start := time.Now()
			_, _, err := c.Lock("x").TryLock(ctx)
			b.Within("TryLock with a context, "+what, time.Since(start), 2400*time.Millisecond)
			if !errors.Is(err, mortise.ErrUnreachable) || !strings.Contains(err.Error(), "TLS") {
				t.Errorf("TryLock: %v, want ErrUnreachable and a word of TLS", err)
			}
		}
	})
}

// A server without scripts is no place for locks, and says so at once.
func TestRealServerWithoutScripts(t *testing.T) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			s := redistest.Single(t, "--rename-command", "EVALSHA", "", "--rename-command", "EVAL", "")
			c := mortise.New(open(t, s.Addr(), ""), nil)
			defer c.Close()
			if _, _, err := c.Lock("x").Lock(t.Context()); !errors.Is(err, mortise.ErrNoScripts) || errors.Is(err, mortise.ErrUnreachable) {
				t.Errorf("Lock: %v, want ErrNoScripts", err)
			}
			if err := c.Semaphore("x").Release(t.Context(), 1); !errors.Is(err, mortise.ErrNoScripts) {
				t.Errorf("Release: %v, want ErrNoScripts", err)
			}
		})
	}
}

// On a server without subscriptions waiters ask.
func TestRealServerWithoutMessages(t *testing.T) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			s := redistest.Single(t, "--rename-command", "SUBSCRIBE", "", "--rename-command", "SSUBSCRIBE", "")
			mute := make(chan error, 10)
			c := mortise.New(open(t, s.Addr(), ""), &mortise.Options{Observer: mortise.ObserverFunc(func(e mortise.Event) {
				if e.Type == mortise.EventMute {
					mute <- e.Err
				}
			})})
			defer c.Close()
			other := mortise.New(open(t, s.Addr(), ""), nil)
			defer other.Close()
			for what, lock := range map[string]func(c *mortise.Client) (*mortise.Hold, context.Context, error){
				"Lock": func(c *mortise.Client) (*mortise.Hold, context.Context, error) { return c.Lock("a").Lock(t.Context()) },
				"FairLock": func(c *mortise.Client) (*mortise.Hold, context.Context, error) {
					return c.FairLock("b").Lock(t.Context())
				},
				"RWLock.Write": func(c *mortise.Client) (*mortise.Hold, context.Context, error) {
					return c.RWLock("c").Write().Lock(t.Context())
				},
				"PermitSemaphore": func(c *mortise.Client) (*mortise.Hold, context.Context, error) {
					return c.PermitSemaphore("d").Acquire(t.Context())
				},
			} {
				if _, err := c.PermitSemaphore("d").TrySetPermits(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				hold, _, err := lock(other)
				if err != nil {
					t.Fatal(err)
				}
				got := make(chan *mortise.Hold, 1)
				go func() {
					h, _, err := lock(c)
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
					got <- h
				}()
				redistest.Eventually(t, "it waits", func() error {
					if n := c.Stats().Waiting; n != 1 {
						return fmt.Errorf("%d wait", n)
					}
					return nil
				})
				if err := hold.Unlock(); err != nil {
					t.Error(err)
				}
				if h := <-got; h != nil {
					if err := h.Unlock(); err != nil {
						t.Error(err)
					}
				}
			}
			if err := <-mute; err == nil || !strings.Contains(err.Error(), "unknown command") || len(mute) > 0 {
				t.Errorf("told %v, and %d times more, want once that the command is unknown", err, len(mute))
			}
		})
	}
}
