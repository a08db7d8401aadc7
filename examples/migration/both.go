package migration

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	"github.com/mortise-go/mortise"
)

// both holds the old lock and the new one while a migration is rolled out.
func both(ctx context.Context, rs *redsync.Redsync, client *mortise.Client, name string, ship work, options ...redsync.Option) (err error) {
	mutex := rs.NewMutex(name, options...)
	if err := mutex.LockContext(ctx); err != nil { // the old lock first, in every process
		return err
	}
	defer func() {
		_, uerr := mutex.UnlockContext(context.WithoutCancel(ctx))
		err = errors.Join(err, uerr)
	}()
	return client.Lock("v2:"+name).Do(ctx, ship) // not the key of the old lock
}
