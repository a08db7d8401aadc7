//go:build server && proof

package script_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// No script blocks the server for long, whatever the key holds: here 400,000
// entries of another program.
func TestScriptsAreBounded(t *testing.T) {
	server := redistest.Single(t)
	const field = "redis.call('hset', KEYS[1], 'f' .. i .. ':x:expire_time', i)"
	const reader = "redis.call('hset', KEYS[1], 'x:' .. i, 1)"
	plain := func(call func(ctx context.Context, d driver.Driver) answer) func(context.Context, driver.Driver) {
		return func(ctx context.Context, d driver.Driver) { call(ctx, d) }
	}
	for name, test := range map[string]struct {
		fill, set string
		calls     []func(ctx context.Context, d driver.Driver)
	}{
		"group": {field, "", []func(ctx context.Context, d driver.Driver){
			func(ctx context.Context, d driver.Driver) { _, _, _ = script.GroupAcquire(ctx, d, ab, me, lease) },
			func(ctx context.Context, d driver.Driver) { _, _ = script.GroupReentry(ab, me, 2, lease).Run(ctx, d) },
			func(ctx context.Context, d driver.Driver) { _, _ = script.GroupLeave(ctx, d, ab, me, 1) },
			func(ctx context.Context, d driver.Driver) {
				script.Renew(ctx, d, [][]script.Renewal{{script.GroupRenewal(ab, me, lease)}})
			},
			func(ctx context.Context, d driver.Driver) { _, _ = script.GroupInspect(ctx, d, ab) },
		}},
		"read/write lock, read": {reader, "read", []func(ctx context.Context, d driver.Driver){
			plain(writeAcquire), plain(readAcquire("")), plain(readReenter), plain(readLeave), plain(readRelease), plain(writeAcquire),
		}},
		"read/write lock, written": {reader, "write", []func(ctx context.Context, d driver.Driver){
			plain(readAcquire("")), plain(writeAcquire),
			func(_ context.Context, d driver.Driver) {
				if _, err := server.Do("HSET", job, meW, "1"); err != nil {
					t.Error(err)
				}
			},
			plain(writeRelease),
		}},
		"permits": {"redis.call('zadd', KEYS[2], i, i)", "", []func(ctx context.Context, d driver.Driver){
			func(ctx context.Context, d driver.Driver) {
				_, _, _ = script.PermitAcquire(ctx, d, permits, []string{alien}, lease, true, "")
			},
			func(ctx context.Context, d driver.Driver) {
				_, _ = script.PermitSet(ctx, d, permits, op, script.PermitAll, 3)
			},
			func(ctx context.Context, d driver.Driver) { _, _ = script.PermitInspect(ctx, d, permits, 10) },
			func(ctx context.Context, d driver.Driver) {
				_, _, _ = script.PermitRelease(ctx, d, permits, "", []string{alien})
			},
			func(ctx context.Context, d driver.Driver) { _, _ = script.PermitDelete(ctx, d, permits, op+"1") },
		}},
	} {
		t.Run(name, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				w := realWorld(t, server)
				w.fillJob(t, test.fill)
				if test.set != "" {
					w.must(t, "HSET", job, "mode", test.set)
				}
				for i, call := range test.calls {
					began := time.Now()
					call(t.Context(), w)
					b.Within(fmt.Sprintf("call %d holds up the server", i), time.Since(began), 100*time.Millisecond)
				}
			})
		})
	}
}

// fillJob runs command 400,000 times, in the server.
func (w *world) fillJob(t *testing.T, command string) {
	for from := 0; from < 400_000; from += 20_000 {
		w.must(t, "EVAL", "for i = ARGV[1], ARGV[1] + 19999 do "+command+" end", "2", job, keyspace.PermitExpiries(job), fmt.Sprint(from))
	}
}
