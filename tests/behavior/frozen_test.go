package behavior

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// freeze is a fault: Redis answers so many requests, and no more from then on.
type freeze struct {
	how   func(ctx context.Context, name string) error // what becomes of those that it does not answer
	waits bool                                         // the call waits for others: what the client tells of that meanwhile does not count

	mu      sync.Mutex // guards the fields below
	answers int
	at      time.Time // when it was first asked in vain; zero if it was not
}

func (f *freeze) fault(ctx context.Context, name string) error {
	f.mu.Lock()
	f.answers--
	frozen := f.answers < 0
	if telling := strings.HasPrefix(name, "client_"); frozen && f.at.IsZero() && (!f.waits || !telling) {
		f.at = time.Now()
	}
	f.mu.Unlock()
	if frozen {
		return f.how(ctx, name)
	}
	return nil
}

func (f *freeze) since() (d time.Duration, frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.at), !f.at.IsZero()
}

// silences are what a client sees of a server that is frozen.
var silences = map[string]func(ctx context.Context, name string) error{
	"hangs": hang,
	"runs into the client's own limit": func(ctx context.Context, name string) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		return hang(ctx, name)
	},
}

// frozenIn are callables of which a server that freezes may answer a part.
var frozenIn = []callable{
	{"MultiLock of two scripts", func(c *mortise.Client) any {
		return mortise.NewMultiLock(c.Lock("x"), c.Lock("z"), c.FairLock("y"), c.Lock("w"))
	}},
	{"MultiLock of three kinds", func(c *mortise.Client) any {
		return mortise.NewMultiLock(c.RWLock("x").Read(), c.FairLock("y"), c.FencedLock("w"))
	}},
	{"durable Lock", func(c *mortise.Client) any { return c.Lock("x").With(durably(1)) }},
	{"durable MultiLock", func(c *mortise.Client) any {
		return mortise.NewMultiLock(c.Lock("x"), c.FairLock("y")).With(durably(1))
	}},
	{"Redlock", func(c *mortise.Client) any { return mortise.NewRedlock("x", c) }},
	{"lists", func(c *mortise.Client) any { return lists{c} }},
}

// lists is the lists of a client, read to their ends.
type lists struct{ c *mortise.Client }

func (l lists) Locks(ctx context.Context) (err error) {
	for _, err = range l.c.Locks(ctx, "*") {
	}
	return err
}

func (l lists) TokenUses(ctx context.Context) (err error) {
	for _, err = range l.c.TokenUses(ctx) {
	}
	return err
}

// longest returns how long a call takes at most on a server that freezes, as docs/guarantees.md says.
func longest(of, method string) time.Duration {
	const patience, names, round = 10 * time.Second, time.Second, 1300 * time.Millisecond
	switch name := of + "." + method; {
	case strings.HasSuffix(name, ".ForceUnlock"), name == "Client.Ask", name == "lists.Locks":
		return patience + names
	case strings.Contains(of, "MultiLock") && (method == "Lock" || method == "Do"):
		return patience + round
	case of == "Redlock":
		return patience + 4*time.Second
	}
	return patience + aside[of+"."+method]
}

// A server may freeze after any of its answers. No call takes longer for that than is documented.
func TestEachCallIsBoundedWhereverTheServerFreezes(t *testing.T) {
	for _, of := range slices.Concat(callables, frozenIn) {
		for _, method := range callsOf(of) {
			if method == "Lead" { // it goes on until its context ends
				continue
			}
			t.Run(of.name+"."+method, func(t *testing.T) {
				t.Parallel()
				want := longest(of.name, method)
				for _, state := range statesOf(of) {
					for how, silence := range silences {
						for answers, frozen := 0, true; frozen && answers < 9; answers++ {
							var took time.Duration
							if took, frozen = callFrozen(t, of, method, state, silence, answers); frozen && took > want {
								t.Errorf("%s: it took %v after %d answers if the next one %s, want %v at most", state, took, answers, how, want)
							}
						}
					}
				}
			})
		}
	}
}

// statesOf returns in which states an object is called: free, taken, taken in part, or held by the caller.
func statesOf(of callable) []string {
	c := mortise.New(memredis.New().Driver(), nil)
	defer c.Close()
	states := []string{"free", "taken"}
	if strings.Contains(of.name, "MultiLock") {
		states = append(states, "taken in part")
	}
	if _, ok := of.open(c).(taker); ok {
		states = append(states, "held")
	}
	return states
}

// callFrozen returns how long a call lasts from when it asks in vain. The server freezes after so many answers. It is not frozen
// if the call has ended before.
func callFrozen(t *testing.T, of callable, method, state string, silence func(context.Context, string) error, answers int) (took time.Duration, frozen bool) {
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		t.Cleanup(s.Close)
		c, r := openReplicated(t, s, 1, 1, nil)
		object := of.open(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if state == "held" {
			_, ctx = must(t, object.(taker), ctx)
		} else {
			other, _ := openReplicated(t, s, 1, 1, nil)
			occupy(t, of, other, state)
		}
		f := &freeze{how: silence, answers: answers, waits: slices.Contains([]string{"Lock", "Acquire", "Campaign", "Wait", "Await", "Enter", "Do"}, method)}
		r.Set(f.fault, nil)
		_ = invoke(ctx, object, method)
		took, frozen = f.since()
		r.Set(nil, nil)
	})
	return took, frozen
}

// occupy makes another client have what the calls of an object are about, or a part of it.
func occupy(t *testing.T, of callable, c *mortise.Client, state string) {
	t.Helper()
	object := of.open(c)
	switch {
	case state == "free":
		return
	case state == "taken in part":
		object = c.Lock("x")
	case of.name == "Client" || of.name == "lists":
		for i := range 120 {
			mustFence(t, c.FencedLock(given+strings.Repeat("x", i)), t.Context())
		}
	}
	for _, method := range []string{"TrySetPermits", "TrySetCount", "TryLock", "TryAcquire", "Campaign"} {
		if reflect.ValueOf(object).MethodByName(method).IsValid() {
			if err := invoke(t.Context(), object, method); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(time.Second) // in which the client tells of it
}

// given is what others gives for a name.
const given = "0123456789abcdef0123456789abcdef"

// What a MultiLock has when the server freezes is given back in the background, before its leases end. Close waits for that.
func TestMultiLockIsGivenBackBehindAFreeze(t *testing.T) {
	for _, of := range frozenIn {
		if !strings.HasPrefix(of.name, "MultiLock") {
			continue
		}
		t.Run(of.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				for _, closes := range []bool{false, true} {
					c, f := open(t, s, nil)
					frozen := &freeze{how: hang, answers: 2}
					f.Set(func(ctx context.Context, name string) error {
						if closes && strings.HasSuffix(name, "_release") {
							time.Sleep(100 * time.Millisecond)
							return nil
						}
						return frozen.fault(ctx, name)
					}, nil)
					start := time.Now()
					if _, _, err := of.open(c).(taker).TryLock(t.Context()); !errors.Is(err, mortise.ErrUnreachable) || time.Since(start) != 10*time.Second {
						t.Errorf("TryLock: %v after %v, want ErrUnreachable after 10s", err, time.Since(start))
					}
					if n := do(t, s, "EXISTS", "w", "x", "y", "z").Int(); n == 0 {
						t.Error("nothing is held: not the schedule intended")
					}
					if closes {
						_ = c.Close()
					} else {
						f.Set(nil, nil)
						time.Sleep(driver.Longest + time.Second) // for as long as a request may hang
					}
					wantFree(t, s, "w", "x", "y", "z")
				}
				wantEmpty(t, s)
			})
		})
	}
}
