package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/terms"
)

// replicas makes leases durable, and remembers what the masters are able to do for that.
type replicas struct {
	client *Client

	mu   sync.Mutex      // guards able
	able map[ability]int // verified abilities, with the number of replicas of the master
}

// ability identifies a kind of waiting that a master may support.
type ability struct {
	shard  string
	aof    bool
	counts bool
}

func (s *replicas) ability(key string, d terms.Durability) ability {
	return ability{s.client.driver.Shard(key), d.AOF, d.Counts()}
}

// count returns the number of replicas that a master had when last asked.
func (s *replicas) count(a ability) (n int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known = s.able[a]
	return n, known
}

// setCount notes that a master has that ability, and n replicas.
func (s *replicas) setCount(a ability, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.able[a] = n
}

// driver returns the client's driver if it can wait for replicas.
func (s *replicas) driver() (driver.Waiter, error) {
	if w, ok := s.client.driver.(driver.Waiter); ok {
		return w, nil
	}
	return nil, outcome.Invalid("the driver is a %T, which cannot wait for replicas, so that there is no durability", s.client.driver)
}

// canWait returns an error if the master of key does not support d. It runs
// before a lock is acquired, and asks each master once.
func (s *replicas) canWait(ctx context.Context, key string, d terms.Durability) error {
	if d.None() {
		return nil
	}
	w, err := s.driver()
	if err != nil {
		return err
	}
	a := s.ability(key, d)
	if _, known := s.count(a); known {
		return nil
	}
	var n int
	_, err = s.client.Call(ctx, s.client.config.RetryFor, func(ctx context.Context) (err error) {
		n, err = script.TryWait(ctx, w, key, driver.Wait{Timeout: time.Millisecond, AOF: d.AOF, Count: d.Counts()})
		return err
	})
	if err == nil {
		s.setCount(a, n)
	} else if driver.ClassOf(err) == driver.Other {
		return fmt.Errorf("%w: the durability is %v, which Redis cannot give: %w", outcome.ErrInvalid, d, err)
	}
	return err
}

// renewAndWait renews leases, all of one shard and with durability d. A result
// without error was acknowledged as d requires.
func (s *replicas) renewAndWait(ctx context.Context, d terms.Durability, groups [][]script.Renewal) []script.RenewResult {
	calls := script.Renewals(groups)
	results := make([]script.RenewResult, len(groups))
	for i, r := range s.evalAndWait(ctx, d, func() []driver.Call { return calls }) {
		results[i] = script.RenewalAnswer(calls[i], r)
	}
	return results
}

// evalAndWait runs scripts that keep leases, all of one shard and with durability d. A result without error was
// acknowledged as d requires. It may run them twice, and asks for them each time.
func (s *replicas) evalAndWait(ctx context.Context, d terms.Durability, ask func() []driver.Call) []driver.Result {
	calls := ask()
	results := make([]driver.Result, len(calls))
	w, err := s.driver()
	if err != nil {
		for i := range results {
			results[i].Err = outcome.Final(err)
		}
		return results
	}
	a, limit := s.ability(calls[0].Keys[0], d), d.Limit(ctx)
	for asksAgain := d.Counts(); ; asksAgain = false {
		wait := s.waitFor(a, d, time.Until(limit), asksAgain)
		more := false // another wait may bring more
		for i, r := range script.EvalAndWait(ctx, w, calls, wait) {
			results[i] = r.Result
			switch wanted := d.Wanted(r.Of); {
			case r.Err != nil:
				results[i].Err = s.unanswered(ctx, r.Err, wait)
				continue
			case !d.Met(wanted, r.Acks, r.Synced):
				results[i].Err = s.client.errors.NotDurable(terms.DurabilityLack{Wanted: wanted, Acknowledged: r.Acks, Unsynced: d.AOF && !r.Synced})
				more = more || asksAgain || wanted > wait.Replicas
			}
			if d.Counts() {
				s.setCount(a, r.Of)
			}
		}
		if !more || !time.Now().Before(limit) || ctx.Err() != nil {
			return results
		}
		calls = ask()
	}
}

// waitFor returns what to wait for, and for how long at most. A replica may have left since the master was last asked:
// it is not waited for until the end, if the master can be asked again.
func (s *replicas) waitFor(a ability, d terms.Durability, most time.Duration, asksAgain bool) driver.Wait {
	known, _ := s.count(a)
	if asksAgain {
		most = min(most, max(d.Patience()/10, time.Millisecond))
	}
	return driver.Wait{Replicas: d.Wanted(known), AOF: d.AOF, Count: d.Counts(), Timeout: most}
}

// unanswered returns the error of a renewal that failed with err. Redis checks only ten
// times a second whether a WAIT has timed out, which may be too late for ctx.
func (s *replicas) unanswered(ctx context.Context, err error, wait driver.Wait) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return s.client.errors.NotDurable(terms.DurabilityLack{Wanted: wait.Replicas, Err: err})
	}
	return err
}

// reenter sets the count of holds of a lock that id has, or leaves it as it is if count is 0, and extends its lease to end.
// It waits until that has durability d. A token that it draws must be above seen; if it is not, the error comes with a Grant.
func (k *Lock) reenter(ctx context.Context, id string, count int, end time.Time, d terms.Durability, seen int64) (got script.Grant, err error) {
	var r script.Reentry
	ask := func() []driver.Call {
		left := max(time.Until(end)+time.Millisecond-1, time.Millisecond) // it is sent in whole milliseconds
		r = k.ops.Reentry(id, count, left)
		return []driver.Call{r.Call}
	}
	if d.None() {
		ask()
		got, err = r.Run(ctx, k.client.driver)
	} else {
		reply := k.client.replicas.evalAndWait(ctx, d, ask)[0]
		got, err = r.Answer(reply)
	}
	if errors.Is(err, outcome.ErrNotDurable) {
		return got, outcome.Final(err)
	}
	if got.Token > 0 {
		if err := k.regressed(seen, got.Token); err != nil {
			return got, outcome.Final(err)
		}
	}
	return got, err
}
