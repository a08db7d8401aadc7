package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// owned is something with an owner, under one name, by what it looks like in
// Redis; held in full it lets nobody else in, but readers among readers.
type owned struct {
	form string
	take func(c *mortise.Client, ctx context.Context) (release func() error, inside context.Context, err error)
}

func ownedLock(form string, open func(c *mortise.Client) waiting) owned {
	return owned{form, func(c *mortise.Client, ctx context.Context) (func() error, context.Context, error) {
		hold, ctx, err := open(c).Lock(ctx)
		if err != nil {
			return nil, nil, err
		}
		return hold.Unlock, ctx, nil
	}}
}

var everyOwned = map[string]owned{
	"Lock":        ownedLock("holder", func(c *mortise.Client) waiting { return c.Lock("job") }),
	"FairLock":    ownedLock("holder", func(c *mortise.Client) waiting { return c.FairLock("job") }),
	"FencedLock":  ownedLock("holder", func(c *mortise.Client) waiting { return c.FencedLock("job") }),
	"SpinLock":    ownedLock("holder", func(c *mortise.Client) waiting { return c.SpinLock("job") }),
	"MultiLock":   ownedLock("holder", func(c *mortise.Client) waiting { return mortise.NewMultiLock(c.Lock("job"), c.Lock("x")) }),
	"fair Multi":  ownedLock("holder", func(c *mortise.Client) waiting { return mortise.NewMultiLock(c.FairLock("job"), c.Lock("x")) }),
	"Redlock":     ownedLock("holder", func(c *mortise.Client) waiting { return mortise.NewRedlock("job", c) }),
	"Read":        ownedLock("read", func(c *mortise.Client) waiting { return c.RWLock("job").Read() }),
	"Write":       ownedLock("write", func(c *mortise.Client) waiting { return c.RWLock("job").Write() }),
	"Group of ab": ownedLock("group", func(c *mortise.Client) waiting { return c.GroupLock("job", "a", "b") }),
	"Group of bc": ownedLock("other group", func(c *mortise.Client) waiting { return c.GroupLock("job", "b", "c") }),
	"Election": {"election", func(c *mortise.Client, ctx context.Context) (func() error, context.Context, error) {
		term, ctx, err := c.Election("job").Campaign(ctx, "me")
		if err != nil {
			return nil, nil, err
		}
		return term.Resign, ctx, nil
	}},
}

// entering is what becomes of an owner of the one that wants the other, too.
func entering(first, second string) error {
	switch {
	case first == second && first == "election":
		return mortise.ErrReentry
	case first == second, first == "write" && second == "read":
		return nil
	case first == "read" && second == "write", first == "group" && second == "other group", first == "other group" && second == "group":
		return mortise.ErrReentry
	}
	return mortise.ErrWrongKind
}

// An owner that takes a name again, as the same kind of object or as another one,
// is let in or refused at once. It never waits for itself.
func TestNobodyWaitsForItself(t *testing.T) {
	t.Parallel()
	for first, a := range everyOwned {
		for second, b := range everyOwned {
			t.Run(first+" then "+second, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					c, _ := open(t, s, nil)
					leave, ctx, err := a.take(c, t.Context())
					if err != nil {
						t.Fatal(err)
					}
					want := entering(a.form, b.form)
					limited, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					start := time.Now()
					leaveInner, _, err := b.take(c, limited)
					if !errors.Is(err, want) || time.Since(start) > 100*time.Millisecond {
						t.Fatalf("%v after %v, want %v at once", err, time.Since(start), want)
					}
					if err := leave(); err != nil { // in any order
						t.Error(err)
					}
					if leaveInner != nil {
						if err := leaveInner(); err != nil {
							t.Error(err)
						}
					}
					wantEmpty(t, s)
				})
			})
		}
	}
}

// Two of one owner wait for one lock, each as another kind. The first to have it
// brings the other one in.
func TestSiblingsEnterAsAnotherKind(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"Lock", "FencedLock", "SpinLock", "FairLock"} {
		for _, second := range []string{"Lock", "FencedLock", "SpinLock", "FairLock"} {
			t.Run(fmt.Sprintf("%s and %s", first, second), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					holder, _ := open(t, s, nil)
					c, _ := open(t, s, nil)
					block, _ := mustLock(t, holder.Lock("job"), t.Context())
					limited, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					owner := mortise.WithOwner(limited)
					inside := make(chan func() error, 2)
					for _, name := range []string{first, second} {
						go func() {
							leave, _, err := everyOwned[name].take(c, owner)
							if err != nil {
								t.Error(err)
								leave = func() error { return nil }
							}
							inside <- leave
						}()
						synctest.Wait()
					}
					mustUnlock(t, block)
					one := <-inside
					start := time.Now()
					other := <-inside
					if d := time.Since(start); d > 10*time.Millisecond {
						t.Errorf("the other one is inside %v later, want at once", d)
					}
					for _, leave := range []func() error{one, other} {
						if err := leave(); err != nil {
							t.Error(err)
						}
					}
					wantEmpty(t, s)
				})
			})
		}
	}
}

// What is known of a hold by its kind is known by every kind of that name.
func TestHoldIsKnownToOtherKinds(t *testing.T) {
	t.Parallel()
	type one interface {
		waiting
		Inspect(ctx context.Context) (mortise.State, error)
		ForceUnlock(ctx context.Context) (*mortise.Holder, error)
	}
	for name, open2 := range map[string]func(c *mortise.Client) (held, asked one){
		"a Lock by a FairLock": func(c *mortise.Client) (one, one) { return c.Lock("job"), c.FairLock("job") },
		"a FairLock by a Lock": func(c *mortise.Client) (one, one) { return c.FairLock("job"), c.Lock("job") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				held, asked := open2(c)
				hold, ctx, err := held.Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if state, err := asked.Inspect(ctx); err != nil || !state.Mine {
					t.Errorf("Inspect: %+v, %v, want it Mine", state, err)
				}
				if _, err := asked.ForceUnlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				if cause := context.Cause(ctx); !errors.Is(cause, mortise.ErrLost) {
					t.Errorf("after ForceUnlock in the same process the cause is %v, want ErrLost at once", cause)
				}
				if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
					t.Error(err)
				}
			})
		})
	}
}

// A refusal tells a hold of the same client, which the caller may have itself, from one of another.
func TestRefusalTellsAHoldOfTheSameClient(t *testing.T) {
	t.Parallel()
	for name, kind := range everyOwned {
		if kind.form != "holder" && kind.form != "write" || name == "Redlock" {
			continue
		}
		for _, hidden := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hidden: %v", name, hidden), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					identity := mortise.Identity{Hide: hidden}
					c, _ := open(t, s, &mortise.Options{Identity: identity})
					other, _ := open(t, s, &mortise.Options{Identity: identity})
					release, _, err := kind.take(c, t.Context())
					if err != nil {
						t.Fatal(err)
					}
					for client, own := range map[*mortise.Client]bool{c: true, other: false} {
						for _, within := range []time.Duration{time.Nanosecond, time.Second} {
							wait, cancel := context.WithTimeout(t.Context(), within)
							_, _, err := kind.take(client, wait)
							cancel()
							held, ok := errors.AsType[*mortise.HeldError](err)
							if !ok && within < time.Second {
								continue // it was not refused before its end
							}
							if !ok || held.Own != own || strings.Contains(held.Error(), "hold of this client") != own {
								t.Errorf("refused by a hold of its own (%v): %v", own, err)
							}
						}
					}
					if err := release(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
