// Package migration does the same work with other libraries and with mortise, before and after a
// migration. docs/migration.md shows it.
package migration

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/mortise-go/mortise"
)

// work is what is done under a lock.
type work func(ctx context.Context) error

func redsyncBefore(ctx context.Context, rs *redsync.Redsync, ship work) error {
	mutex := rs.NewMutex("order:42", redsync.WithExpiry(10*time.Second), redsync.WithTries(32))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for range time.Tick(3 * time.Second) {
			if ok, err := mutex.ExtendContext(ctx); !ok || err != nil {
				cancel()
				return
			}
		}
	}()
	return ship(ctx)
}

func redsyncAfter(ctx context.Context, client *mortise.Client, ship work) error {
	lock := client.Lock("order:42").With(mortise.LockOptions{TTL: 10 * time.Second, Wait: 5 * time.Second})
	return lock.Do(ctx, ship)
}

// redsyncServers is for independent servers, one client for each; before, it was
// redsync.New(pool1, pool2, pool3).
func redsyncServers(ctx context.Context, clients []*mortise.Client, ship work) error {
	lock := mortise.NewRedlock("order:42", clients...)
	return lock.Do(ctx, ship)
}
