package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
)

// On a cluster each record is in a slot of its own. Clients find each other's, and ask each other, with
// each kind of messages.
func TestRealRecordsOnACluster(t *testing.T) {
	modes := map[string]mortise.PubSub{"classic": mortise.PubSubClassic, "both": mortise.PubSubBoth}
	if redistest.Sharded(t) {
		modes["sharded"] = mortise.PubSubSharded
	}
	onCluster(t, func(t *testing.T, driver string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client) {
		for name, mode := range modes {
			t.Run(name, func(t *testing.T) {
				trial := 0
				canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
					trial++
					prefix := fmt.Sprint(driver, ":", name, ":", trial, ":")
					crowdIsSeen(t, b, set, prefix, mode == mortise.PubSubClassic || !redistest.Sharded(t), mode != mortise.PubSubSharded, func() *mortise.Client {
						return dial(&mortise.Options{Prefix: prefix, PubSub: mode, History: 10})
					})
				})
			})
		}
	})
}

// crowdIsSeen has some clients hold a lock each, which one more sees and asks for them.
func crowdIsSeen(t *testing.T, b *canary.Bounds, set *redistest.ClusterSet, prefix string, classic, unknown bool, dial func() *mortise.Client) {
	const crowd = 6
	reader := dial()
	var holds []*mortise.Hold
	var ends []context.Context
	for i := range crowd {
		hold, ctx := mustLock(t, dial().Lock(fmt.Sprint("job", i)), t.Context())
		holds, ends = append(holds, hold), append(ends, ctx)
	}
	masters := map[*redistest.Server]bool{}
	for _, one := range awaitClients(t, reader, crowd) {
		masters[set.Owner(t, keyspace.ClientRecord(prefix, one.ID))] = true
		if len(one.Holds) != 1 {
			t.Errorf("%v has the holds %+v, want one", &one.ClientInfo, one.Holds)
		}
	}
	if len(masters) < 2 { // one in about 240 times
		t.Logf("all records are on the same server")
	}
	waiterIsSeen(t, reader, dial(), unknown)
	crowdIsAsked(t, b, reader, holds, ends, classic)
	for i, hold := range holds {
		redistest.Eventually(t, "the history", func() error {
			list, err := reader.History(t.Context(), fmt.Sprint("job", i), 10)
			if err != nil || len(list) != 1 || list[0].Owner != hold.Owner() || list[0].End != "released" {
				return fmt.Errorf("it is %+v, %v", list, fmt.Sprint(err))
			}
			return nil
		})
	}
	awaitClients(t, reader, 0)
}

// waiterIsSeen has a client wait for a lock. On some clusters it is unknown whether Redisson's do.
func waiterIsSeen(t *testing.T, reader, waiter *mortise.Client, unknown bool) {
	t.Helper()
	gone := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_, _, err := waiter.Lock("job0").Lock(ctx)
		gone <- err
	}()
	redistest.Eventually(t, "the waiter is seen", func() error {
		q, err := reader.Queue(t.Context(), "job0")
		if err != nil || len(q.Waiters) != 1 || q.Waiters[0].Client == nil || (q.Listeners < 0) != unknown {
			return fmt.Errorf("Queue = %+v, %v", q, fmt.Sprint(err))
		}
		return nil
	})
	stop()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("Lock = %v, want Canceled", err)
	}
}

// crowdIsAsked asks the holders of the locks, and has them release them. Where classic messages are
// not known to arrive, they learn of it when they next write their records.
func crowdIsAsked(t *testing.T, b *canary.Bounds, reader *mortise.Client, holds []*mortise.Hold, ends []context.Context, classic bool) {
	t.Helper()
	for i, hold := range holds {
		asked, err := reader.Ask(t.Context(), fmt.Sprint("job", i), "please")
		if err != nil || len(asked) != 1 || !asked[0].Asked || asked[0].Owner != hold.Owner() {
			t.Errorf("Ask = %+v, %v, want that %s is asked", asked, err, hold.Owner())
		}
	}
	start := time.Now()
	for i, ctx := range ends {
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, mortise.ErrRevoked) {
			t.Errorf("the hold ended with %v, want ErrRevoked", err)
		}
		mustUnlock(t, holds[i])
	}
	if !classic {
		b.Within("what the holders are told", time.Since(start), 5*time.Second)
	}
}

// awaitClients waits until so many clients are seen.
func awaitClients(t *testing.T, c *mortise.Client, want int) (list []mortise.ClientState) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprintf("%d clients", want), func() (err error) {
		if list, err = c.Clients(t.Context()); err == nil && len(list) != want {
			err = fmt.Errorf("there are %+v", list)
		}
		return err
	})
	return list
}
