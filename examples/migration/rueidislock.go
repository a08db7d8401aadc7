package migration

import (
	"context"

	"github.com/mortise-go/mortise"
	"github.com/redis/rueidis/rueidislock"
)

func rueidislockBefore(ctx context.Context, locker rueidislock.Locker, lead work) error {
	lctx, release, err := locker.WithContext(ctx, "leader")
	if err != nil {
		return err
	}
	defer release()
	return lead(lctx)
}

func rueidislockAfter(ctx context.Context, client *mortise.Client, lead work) error {
	hold, lctx, err := client.Lock("leader").Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock() // the end of ctx would not release the lock
	return lead(lctx)
}
