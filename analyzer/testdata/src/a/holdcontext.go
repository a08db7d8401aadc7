package a

import (
	"context"

	"github.com/mortise-go/mortise"
)

// Hold.Context ends with the lock as well as the context that was dropped.
func holdsContext(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock()
	defer context.AfterFunc(ctx, func() {})()
	go func() {
		select {
		case <-ctx.Done():
		case <-hold.Context().Done():
		}
	}()
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	_ = work(hold.Context())
	return work(ctx) // want `ctx does not end when the lock is lost; the context that does was dropped in line 11`
}

func withoutTheHoldsContext(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	<-ctx.Done() // want `ctx does not end`
	return hold.Unlock()
}

func cancelledWithTheHold(ctx context.Context, l *mortise.Lock) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hold, _, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock()
	defer context.AfterFunc(hold.Context(), cancel)()
	return work(ctx)
}

func watch(context.Context, *mortise.Hold) {}

func release(*mortise.Hold) error { return nil }

type keeper struct{ hold *mortise.Hold }

// Who gets the hold knows of a loss, or may release it.
func passesTheHoldOn(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	go watch(ctx, hold)
	return work(ctx)
}

func releasesElsewhere(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	_ = work(ctx) // want `ctx does not end`
	return release(hold)
}

func releasedElsewhere(ctx context.Context, l *mortise.Lock, k *keeper) error {
	hold, _, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	if k != nil {
		k.hold = hold
		return work(ctx)
	}
	if err := release(hold); err != nil {
		return err
	}
	return work(ctx)
}

func releasesElsewhereLater(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	defer release(hold)
	return work(ctx) // want `ctx does not end`
}

func returnsTheWrongOne(ctx context.Context, l *mortise.Lock) (*mortise.Hold, context.Context, error) {
	hold, _, err := l.Lock(ctx)
	if err != nil {
		return nil, ctx, err
	}
	return hold, ctx, nil // want `ctx does not end`
}
