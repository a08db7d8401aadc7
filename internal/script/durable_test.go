package script_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// EvalWait makes a wire a driver.Waiter.
func (w *wire) EvalWait(ctx context.Context, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	return wait.Run(calls, func(_ driver.Where, _ []int, _ []bool, follow [][]string) ([]driver.Result, error) {
		replies := w.Batch(ctx, calls) // falls back to the scripts' text itself
		for _, c := range follow {
			v, err := w.do(c...)
			replies = append(replies, driver.Result{Value: v, Err: classified(err)})
		}
		return replies, nil
	}, false)
}

// EvalWait makes odd a driver.Waiter.
func (o odd) EvalWait(ctx context.Context, calls []driver.Call, _ driver.Wait) []driver.Acknowledged {
	results := make([]driver.Acknowledged, len(calls))
	for i, r := range o.Batch(ctx, calls) {
		results[i].Result = r
	}
	return results
}

// durable is the answer of a renewal, and of the replicas.
type durable struct {
	script.RenewResult
	driver.Acknowledged
	Err error // either's
}

// renewAndWait renews as the watchdog renews durable leases.
func renewAndWait(ctx context.Context, d driver.Waiter, groups [][]script.Renewal, wait driver.Wait) []durable {
	calls := script.Renewals(groups)
	results := make([]durable, len(calls))
	for i, r := range script.EvalAndWait(ctx, d, calls, wait) {
		results[i] = durable{RenewResult: script.RenewalAnswer(calls[i], r.Result), Acknowledged: r}
		results[i].Err = results[i].RenewResult.Err
	}
	return results
}

// reenter reports whether the owner of a lock has re-entered it.
func reenter(ctx context.Context, d driver.Driver, r script.Reentry) (bool, error) {
	g, err := r.Run(ctx, d)
	return g.OK, err
}

// reenterFenced returns the token of a re-entry.
func reenterFenced(ctx context.Context, d driver.Driver, r script.Reentry) (int64, error) {
	g, err := r.Run(ctx, d)
	return g.Token, err
}

var noWait = driver.Wait{Timeout: time.Millisecond}

// With a command behind it, a renewal does the same as without.
func TestRenewAndWaitRenews(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		for _, l := range leases {
			w.must(t, "FLUSHALL")
			l.put(t, w, "first")
			l.put(t, w, "second")
			group := []script.Renewal{script.LockRenewal("first", me, lease), script.LockRenewal("second", me, lease)}
			for _, run := range []string{"first", "repeat"} {
				r := renewAndWait(t.Context(), w, [][]script.Renewal{group}, noWait)[0]
				if want := []int{l.state, l.state}; r.Err != nil || !slices.Equal(r.States, want) {
					t.Errorf("%s, %s run: got %v, %v, want %v", l.name, run, r.States, r.Err, want)
				}
				for _, key := range []string{"first", "second"} {
					w.wantDump(t, key, l.after)
					w.wantTTL(t, key, l.ttl)
				}
			}
		}
	})
}

func TestTryWait(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		if of, err := script.TryWait(t.Context(), w, job, noWait); of != 0 || err != nil {
			t.Errorf("WAIT: %d, %v, want that it can be done", of, err)
		}
		_, err := script.TryWait(t.Context(), w, job, driver.Wait{Timeout: time.Millisecond, AOF: true})
		if err == nil || driver.ClassOf(err) != driver.Other {
			t.Errorf("WAITAOF without an append-only file: %v, want an error of class other", err)
		}
		w.wantDump(t, job, "nothing")
	})
}

// A count of 0 leaves the count as it is; a grant, which has the count 0, becomes a lock, with this lease.
func TestReentryThatKeepsTheCount(t *testing.T) {
	server := single(t)
	for name, r := range map[string]struct {
		put     func(t *testing.T, w *world)
		reentry script.Reentry
		after   string
		ttl     time.Duration
	}{
		"lock":           {held(minute, me, "3"), script.LockReentry(job, me, 0, lease), "hash " + me + "=3", lease},
		"granted":        {held(minute, me, "0"), script.LockReentry(job, me, 0, lease), "hash " + me + "=1", lease},
		"granted longer": {held(long, me, "0"), script.LockReentry(job, me, 0, lease), "hash " + me + "=1", lease},
		"fenced":         {held(minute, me, "3"), script.FencedReentry(job, me, 0, lease), "hash " + me + "=3", lease},
		"fenced granted": {held(long, me, "0"), script.FencedReentry(job, me, 0, lease), "hash " + me + "=1", lease},
		"reader":         {reading(minute, by(me, "2", minute, minute)).put, script.RWReadReentry(job, me, 0, lease), "hash " + me + "=2 mode=read", lease},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				r.put(t, w)
				for range 2 {
					if g, err := r.reentry.Run(t.Context(), w); !g.OK || err != nil {
						t.Fatalf("got %+v, %v, want that it holds the lock", g, err)
					}
					w.wantDump(t, job, r.after)
					w.wantTTL(t, job, r.ttl)
				}
			})
		})
	}
}
