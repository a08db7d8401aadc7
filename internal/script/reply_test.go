package script_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// odd answers every call with the same value or error.
type odd struct {
	driver.Driver
	result driver.Result
}

func (o odd) Eval(context.Context, driver.Call) (driver.Value, error) {
	return o.result.Value, o.result.Err
}

func (o odd) Batch(_ context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i := range results {
		results[i] = o.result
	}
	return results
}

var everyCall = map[string]func(ctx context.Context, d driver.Driver) error{
	"LockAcquire": func(ctx context.Context, d driver.Driver) error {
		ok, by, err := acquire(ctx, d, job, me, lease)
		return unless(ok || by != (script.Holder{}), err)
	},
	"LockReenter": func(ctx context.Context, d driver.Driver) error {
		ok, err := reenter(ctx, d, script.LockReentry(job, me, 2, lease))
		return unless(ok, err)
	},
	"LockLeave": func(ctx context.Context, d driver.Driver) error {
		ok, err := script.LockLeave(ctx, d, job, me, 1)
		return unless(ok, err)
	},
	"LockRelease": func(ctx context.Context, d driver.Driver) error {
		ok, err := released(script.LockRelease(ctx, d, job, me, script.Classic, script.Turns{}))
		return unless(ok, err)
	},
	"MultiAcquire": func(ctx context.Context, d driver.Driver) error {
		ok, _, by, err := script.MultiAcquire(ctx, d, several, me, lease, false)
		return unless(ok || by != (script.Holder{}), err)
	},
	"MultiRelease": func(ctx context.Context, d driver.Driver) error {
		released, err := script.MultiRelease(ctx, d, releases(me, me, me), script.Classic)
		return unless(released != nil, err)
	},
	"NumberRead": func(ctx context.Context, d driver.Driver) error {
		n, err := script.NumberRead(ctx, d, job)
		return unless(n != 0, err)
	},
	"NumberSet": func(ctx context.Context, d driver.Driver) error {
		ok, err := script.NumberSet(ctx, d, job, trial, 1, permitNews, "1", script.Classic)
		return unless(ok, err)
	},
	"NumberDelete": func(ctx context.Context, d driver.Driver) error {
		ok, err := script.NumberDelete(ctx, d, job, trial, permitNews, "1", script.Classic)
		return unless(ok, err)
	},
	"SemaphoreAcquire": func(ctx context.Context, d driver.Driver) error {
		ok, _, err := script.SemaphoreAcquire(ctx, d, job, trial, 1, "", "")
		return unless(ok, err)
	},
	"SemaphoreUndo": func(ctx context.Context, d driver.Driver) error {
		ok, err := script.SemaphoreUndo(ctx, d, job, trial, 1, "", true, script.Classic)
		return unless(ok, err)
	},
	"SemaphoreRelease": func(ctx context.Context, d driver.Driver) error {
		_, became, err := script.SemaphoreRelease(ctx, d, job, trial, 1, script.Classic, "", 0)
		ok := became != script.NotHeld
		return unless(ok, err)
	},
	"SemaphoreAdd": func(ctx context.Context, d driver.Driver) error {
		_, ok, err := script.SemaphoreAdd(ctx, d, job, trial, 1, script.Classic)
		return unless(ok, err)
	},
	"SemaphoreDrain": func(ctx context.Context, d driver.Driver) error {
		n, err := script.SemaphoreDrain(ctx, d, job, trial)
		return unless(n != 0, err)
	},
	"LatchCountDown": func(ctx context.Context, d driver.Driver) error {
		_, ok, err := script.LatchCountDown(ctx, d, job, trial, script.Classic)
		return unless(ok, err)
	},
	"Renew": func(ctx context.Context, d driver.Driver) error {
		r := script.Renew(ctx, d, [][]script.Renewal{{script.LockRenewal(job, me, lease), script.LockRenewal("x", me, lease)}})[0]
		return unless(r.States != nil, r.Err)
	},
	"RenewAndWait": func(ctx context.Context, d driver.Driver) error {
		group := []script.Renewal{script.LockRenewal(job, me, lease), script.LockRenewal("x", me, lease)}
		r := renewAndWait(ctx, d.(driver.Waiter), [][]script.Renewal{group}, noWait)[0]
		return unless(r.States != nil, r.Err)
	},
	"FencedAcquire": func(ctx context.Context, d driver.Driver) error {
		token, by, _, err := script.FencedAcquire(ctx, d, job, me, lease, "")
		return unless(token != 0 || by != (script.Holder{}), err)
	},
	"FencedReenter": func(ctx context.Context, d driver.Driver) error {
		token, err := reenterFenced(ctx, d, script.FencedReentry(job, me, 2, lease))
		return unless(token != 0, err)
	},
	"FencedToken": func(ctx context.Context, d driver.Driver) error {
		token, err := script.FencedToken(ctx, d, job)
		return unless(token != 0, err)
	},
	"GroupAcquire": func(ctx context.Context, d driver.Driver) error {
		ok, by, err := script.GroupAcquire(ctx, d, ab, me, lease)
		return unless(ok || by != (script.Holder{}), err)
	},
	"GroupReenter": func(ctx context.Context, d driver.Driver) error {
		ok, err := reenter(ctx, d, script.GroupReentry(ab, me, 2, lease))
		return unless(ok, err)
	},
	"GroupLeave": func(ctx context.Context, d driver.Driver) error {
		ok, err := script.GroupLeave(ctx, d, ab, me, 1)
		return unless(ok, err)
	},
	"GroupRelease": func(ctx context.Context, d driver.Driver) error {
		ok, err := released(script.GroupRelease(ctx, d, ab, me, channel, script.Classic))
		return unless(ok, err)
	},
	"GroupRenew": func(ctx context.Context, d driver.Driver) error {
		r := script.Renew(ctx, d, [][]script.Renewal{{script.GroupRenewal(ab, me, lease), script.GroupRenewal(ab, me, lease)}})[0]
		return unless(r.States != nil, r.Err)
	},
	"GroupInspect": func(ctx context.Context, d driver.Driver) error {
		h, err := script.GroupInspect(ctx, d, ab)
		return unless(h != nil, err)
	},
	"LockKeep": func(ctx context.Context, d driver.Driver) error {
		ok, err := released(script.LockKeep(ctx, d, job, me, mine2, lease, false))
		return unless(ok, err)
	},
	"FairLeave": func(ctx context.Context, d driver.Driver) error {
		n, again, err := script.FairLeave(ctx, d, script.Fair{FairKeys: script.NewFairKeys(job)}, []string{me, mine2})
		return unless(n != 0 || again != 0, err)
	},
	"InspectTokens": func(ctx context.Context, d driver.Driver) error {
		r := script.InspectTokens(ctx, d, time.Hour, 0, []string{job})[0]
		return unless(r.Tokens != (script.Tokens{}), r.Err)
	},
	"Inspect": func(ctx context.Context, d driver.Driver) error {
		r := script.Inspect(ctx, d, job)[0]
		return unless(r.Key.Type != "", r.Err)
	},
}

var errPromised = errors.New("an error came with an outcome")

func unless(outcome bool, err error) error {
	if outcome && err != nil {
		return errPromised
	}
	return err
}

// A reply that no script returns, from a proxy or a server that is not Redis,
// must not be taken for an outcome.
func TestOddRepliesAreErrors(t *testing.T) {
	for name, v := range map[string]driver.Value{
		"nil":         {},
		"number":      driver.IntValue(1),
		"text":        driver.StringValue("OK"),
		"empty array": driver.ArrayValue(nil),
	} {
		for call, f := range everyCall {
			err := f(t.Context(), odd{result: driver.Result{Value: v}})
			if err == nil || driver.ClassOf(err) != driver.Other || errors.Is(err, errPromised) {
				t.Errorf("%s on a reply that is %s: %v, want an error of class other", call, name, err)
			}
		}
	}
}

func TestErrorsOfTheDriverArePassedOn(t *testing.T) {
	want := &driver.Error{Class: driver.Passing, Err: errors.New("LOADING")}
	for call, f := range everyCall {
		if err := f(t.Context(), odd{result: driver.Result{Err: want}}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", call, err, want)
		}
	}
}

// Redis may have a TTL that is longer than any duration of Go.
func TestTTLOfAges(t *testing.T) {
	const ages, centuries = 9223372036855775, 200 * 365 * 24 * time.Hour // a second more than Go's longest
	v := driver.ArrayValue([]driver.Value{driver.IntValue(0), driver.IntValue(ages), driver.StringValue(java), driver.StringValue("2")})
	for name, acquire := range map[string]func(ctx context.Context, d driver.Driver) (bool, script.Holder, error){
		"Lock": func(ctx context.Context, d driver.Driver) (bool, script.Holder, error) {
			return acquire(ctx, d, job, me, lease)
		},
		"RWLock": func(ctx context.Context, d driver.Driver) (bool, script.Holder, error) {
			return script.RWWriteAcquire(ctx, d, job, me+script.RWWriter, lease)
		},
	} {
		ok, by, err := acquire(t.Context(), odd{result: driver.Result{Value: v}})
		if ok || err != nil || by.Owner != java || by.Count != 2 || by.TTL < centuries || by.TTL+time.Hour < by.TTL {
			t.Errorf("%s: got %v, %+v, %v, want Java as the holder for centuries", name, ok, by, err)
		}
	}
}
