package migration

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise"
)

func tryLock(ctx context.Context, client *mortise.Client, ship work, busy func() error) error {
	lock := client.Lock("order:42").With(mortise.LockOptions{Wait: 5 * time.Second, MaxHold: 10 * time.Second})
	hold, lctx, err := lock.Lock(ctx)
	if errors.Is(err, mortise.ErrLocked) {
		return busy()
	}
	if err != nil {
		return err
	}
	defer hold.Unlock()
	return ship(lctx)
}

func reenter(ctx context.Context, client *mortise.Client, charge work) error {
	return client.Lock("order:42").Do(ctx, func(ctx context.Context) error {
		return client.Lock("order:42").Do(ctx, charge) // with this ctx, it re-enters
	})
}

func isHeld(ctx context.Context) bool {
	hold, ok := mortise.HoldFrom(ctx) // is it held here?
	return ok && hold.Name() == "order:42" && hold.Valid()
}

func permits(ctx context.Context, client *mortise.Client, convert work) error {
	licenses := client.PermitSemaphore("licenses").With(mortise.PermitOptions{Wait: 5 * time.Second, MaxHold: 10 * time.Second})
	hold, lctx, err := licenses.Acquire(ctx)
	if err != nil {
		return err // ErrNoPermits after 5 s
	}
	defer hold.Unlock()
	return convert(lctx)
}
