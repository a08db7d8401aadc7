package migration

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/mortise-go/mortise"
	"github.com/redis/go-redis/v9"
)

// errBusy is the application's own error.
var errBusy = errors.New("another process writes the report")

func redislockBefore(ctx context.Context, rdb *redis.Client, collect, write work) error {
	lock, err := redislock.Obtain(ctx, rdb, "report", time.Minute, &redislock.Options{
		RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 50),
	})
	if errors.Is(err, redislock.ErrNotObtained) {
		return errBusy
	}
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))

	if err := collect(ctx); err != nil {
		return err
	}
	if err := lock.Refresh(ctx, time.Minute, nil); err != nil {
		return err
	}
	return write(ctx)
}

func redislockAfter(ctx context.Context, client *mortise.Client, collect, write work) error {
	lock := client.Lock("report").With(mortise.LockOptions{TTL: time.Minute, Wait: 5 * time.Second})
	err := lock.Do(ctx, func(ctx context.Context) error { // this ctx ends when the lock is lost
		if err := collect(ctx); err != nil {
			return err
		}
		return write(ctx)
	})
	if errors.Is(err, mortise.ErrLocked) {
		return errBusy
	}
	return err
}
