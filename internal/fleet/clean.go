package fleet

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

// cleanWithin bounds the time that is spent on cleaning up.
const cleanWithin = 10 * time.Second

var deleteKey = driver.NewScript("fleet_delete", `return {redis.call('unlink', KEYS[1])}`)

// clean deletes what would stay: numbers, tokens, and histories, which last for a week.
func (f *Fleet) clean() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), cleanWithin)
	defer cancel()
	_, _ = f.look.Semaphore(smtp).Delete(ctx) // a Redis that does not answer keeps what it has
	_, _ = f.look.PermitSemaphore(gpu).Delete(ctx)
	_, _ = f.look.CountDownLatch(parts).Delete(ctx)
	var calls []driver.Call
	// A MultiLock has one history, under the names of its locks in the order in which it acquires them.
	both := []string{stockEU + ", " + stockUS, stockUS + ", " + stockEU}
	for _, name := range append(locks(), both...) {
		for _, key := range []string{keyspace.History(f.prefix + name), keyspace.Token(f.prefix + name)} {
			calls = append(calls, driver.Call{Script: deleteKey, Keys: []string{key}})
		}
	}
	f.raw.Batch(ctx, calls)
}
