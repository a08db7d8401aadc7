//go:build server && proof

package script_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// huge puts a foreign hash there, with some fields.
func huge(key string, fields ...string) setup {
	return func(t *testing.T, w *world) {
		const fill = "for i = 1, 100000 do redis.call('hset', KEYS[1], 'a:' .. i, '1 1 9999999999999') end"
		w.must(t, "EVAL", fill, "1", key)
		if len(fields) > 0 {
			w.must(t, append([]string{"HSET", key}, fields...)...)
		}
	}
}

// wantWork checks how many commands ran inside the scripts since the statistics were reset, and how long the
// server took for them.
func (w *world) wantWork(t *testing.T, b *canary.Bounds, most int, bound time.Duration) {
	t.Helper()
	calls, micros := w.work(t)
	if calls > most {
		t.Errorf("%d inner calls, want %d at most", calls, most)
	}
	b.Within("the script", time.Duration(micros)*time.Microsecond, bound)
}

// Whatever the key holds, a script takes no longer than for one of ours.
func TestHostileDataCostsNothing(t *testing.T) {
	server := redistest.Single(t)
	b := script.Barrier{Name: job, Parties: 3, Lease: lease, Publish: script.Classic}
	cyclicHuge := huge(job, "mode", "barrier", "parties", "3", "next", "1")
	doubleHuge := huge(job, "mode", "doublebarrier", "parties", "3", "next", "1")
	for name, test := range map[string]struct {
		setup setup
		call  func(ctx context.Context, d driver.Driver) string
		want  string
	}{
		"claims of a semaphore, taking": {huge(claims).then(counts("5")), func(ctx context.Context, d driver.Driver) string {
			ok, why, err := script.SemaphoreAcquire(ctx, d, job, trial, 5, "me", "")
			return saidLack(err, ok, why)
		}, "true 0 0"},
		"claims of a semaphore, waiting": {huge(claims).then(counts("5")), func(ctx context.Context, d driver.Driver) string {
			ok, why, err := script.SemaphoreAcquire(ctx, d, job, trial, 6, "me", "")
			return saidLack(err, ok, why)
		}, "false 5 0"},
		"claims of a semaphore, giving up": {huge(claims).then(counts("5")), func(ctx context.Context, d driver.Driver) string {
			undone, err := script.SemaphoreUndo(ctx, d, job, trial, 6, "me", true, script.Classic)
			return said(err, undone)
		}, "false"},
		"claims of a permit semaphore": {huge(claims).then(counts("5")), func(ctx context.Context, d driver.Driver) string {
			ok, why, err := script.PermitAcquire(ctx, d, permits, []string{one}, lease, true, "")
			return said(err, ok, why.Left)
		}, "true 0"},
		"await": {cyclicHuge, func(ctx context.Context, d driver.Driver) string {
			return saidFate(script.BarrierAwait(ctx, d, b, me, false))
		}, "kind"},
		"give up": {cyclicHuge, func(ctx context.Context, d driver.Driver) string {
			return saidFate(script.Fate{}, script.BarrierLeave(ctx, d, b, "a:1"))
		}, "kind"},
		"reset": {cyclicHuge, func(ctx context.Context, d driver.Driver) string {
			return saidFate(script.Fate{}, script.BarrierReset(ctx, d, b, me))
		}, "kind"},
		"enter": {doubleHuge, func(ctx context.Context, d driver.Driver) string {
			_, _, _, err := script.DoubleEnter(ctx, d, b, me, false)
			return saidFate(script.Fate{}, err)
		}, "kind"},
		"leave": {doubleHuge, func(ctx context.Context, d driver.Driver) string {
			return saidFate(script.DoubleLeave(ctx, d, b, "a:1"))
		}, "kind"},
		"quit": {doubleHuge, func(ctx context.Context, d driver.Driver) string {
			_, err := script.DoubleQuit(ctx, d, b, "a:1")
			return saidFate(script.Fate{}, err)
		}, "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				w := realWorld(t, server)
				test.setup(t, w)
				w.must(t, "CONFIG", "RESETSTAT")
				if got := test.call(t.Context(), w); got != test.want {
					t.Errorf("the answer is %q, want %q", got, test.want)
				}
				w.wantWork(t, b, 15, 20*time.Millisecond)
			})
		})
	}
}

// A string of 100 MB lies where a number, a record or an outcome is expected: no script reads more of it than its beginning.
func TestLongStringsCostNothing(t *testing.T) {
	server := redistest.Single(t)
	trials := map[string]func(ctx context.Context, d driver.Driver){
		"barrier, await": func(ctx context.Context, d driver.Driver) { await(false)(ctx, d) },
		"barrier, enter": func(ctx context.Context, d driver.Driver) { enter(false)(ctx, d) },
		"barrier, reset": func(ctx context.Context, d driver.Driver) { _ = script.BarrierReset(ctx, d, ours, me) },
		"token":          func(ctx context.Context, d driver.Driver) { _, _ = script.FencedToken(ctx, d, job) },
		"force": func(ctx context.Context, d driver.Driver) {
			_, _ = script.LockForce(ctx, d, job, me, script.Classic, script.Turns{})
		},
	}
	for name, c := range numberCalls {
		trials["number, "+name] = func(ctx context.Context, d driver.Driver) { _, _ = c.call(ctx, d, script.Classic) }
	}
	for name, c := range permitCalls {
		trials["permits, "+name] = func(ctx context.Context, d driver.Driver) { _, _ = c.call(ctx, d) }
	}
	for name, trial := range trials {
		t.Run(name, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				w := realWorld(t, server)
				var keys []string
				trial(t.Context(), spy{w, func(c driver.Call) { keys = append(keys, c.Keys...) }})
				if len(keys) == 0 {
					t.Fatal("it has no keys")
				}
				for _, long := range keys {
					w.must(t, "FLUSHALL")
					w.must(t, "SETRANGE", long, fmt.Sprint(100<<20-1), "x")
					if name == "force" && long != job {
						w.hold(t, job, lease, me, "1")
						w.must(t, "SETNX", tokenKey, "41")
					}
					w.must(t, "CONFIG", "RESETSTAT")
					trial(t.Context(), w)
					w.wantWork(t, b, 15, 50*time.Millisecond) // to free it, if it was a record, takes ten
				}
			})
		})
	}
}

// A barrier with the maximal number of parties, all of them dead: the next party
// takes them out at once.
func TestManyDeadPartiesAreTakenOutInOneGo(t *testing.T) {
	canary.Judge(t, manyDeadParties)
}

func manyDeadParties(t *testing.T, b *canary.Bounds) {
	w := realWorld(t, redistest.Single(t))
	parties := make([]string, 0, 2006)
	parties = append(parties, "mode", "doublebarrier", "parties", "1000", "next", "1", "open", "1")
	for i := range 1000 {
		parties = append(parties, fmt.Sprint("a:", i), "1")
	}
	w.hold(t, job, lease, parties...)
	w.must(t, "CONFIG", "RESETSTAT")
	fate, err := script.DoubleLeave(t.Context(), w, script.Barrier{Name: job, Parties: 1000, Lease: lease}, "a:7")
	if err != nil || !fate.Over || fate.Why != "died" {
		t.Errorf("got %+v, %v, want that somebody died", fate, err)
	}
	w.wantWork(t, b, 3100, 100*time.Millisecond) // three for each party
}

// Names of fields may be long, and Redis has no command that says how long: only a few are read before they are known to be.
func TestLongNamesCostLittle(t *testing.T) {
	server := redistest.Single(t)
	for name, look := range map[string]func(ctx context.Context, d driver.Driver){
		"inspect": func(ctx context.Context, d driver.Driver) { script.Inspect(ctx, d, job) },
		"sift":    func(ctx context.Context, d driver.Driver) { script.Sift(ctx, d, []string{job}) },
	} {
		for _, fields := range []int{600, 3000} {
			t.Run(fmt.Sprint(name, " ", fields), func(t *testing.T) {
				canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
					w := realWorld(t, server)
					w.must(t, "FLUSHALL")
					const fill = "for i = 1, ARGV[1] do redis.call('hset', KEYS[1], string.rep(i .. ',', 50000), 1) end"
					w.must(t, "EVAL", fill, "1", job, fmt.Sprint(fields)) // of 300 KB on average
					w.must(t, "CONFIG", "RESETSTAT")
					look(t.Context(), w)
					w.wantWork(t, b, 30, 20*time.Millisecond)
				})
			})
		}
	}
}
