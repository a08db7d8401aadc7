package a

import (
	"context"
	"errors"

	"github.com/mortise-go/mortise"
)

func switchOnTheError(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.TryLock(ctx)
	switch {
	case errors.Is(err, mortise.ErrLocked), errors.Is(err, context.Canceled):
		return work(ctx)
	case err != nil:
		return work(ctx)
	}
	defer hold.Unlock()
	return work(ctx) // want `ctx does not end when the lock is lost; the context that does was dropped in line 11`
}

func switchOfTheError(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.TryLock(ctx)
	switch err {
	case mortise.ErrLocked:
		return work(ctx)
	case nil:
		defer hold.Unlock()
		return work(ctx) // want `ctx does not end`
	default:
		return work(ctx)
	}
}

func switchWithoutAnError(ctx context.Context, l *mortise.Lock) {
	hold, _, err := l.TryLock(ctx)
	switch {
	case err == nil:
		_ = work(ctx) // want `ctx does not end`
		_ = hold.Unlock()
	default:
		_ = work(ctx)
	}
	_ = work(ctx)
}

func switchOfTheType(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.TryLock(ctx)
	switch err := err.(type) {
	case nil:
		defer hold.Unlock()
		return work(ctx) // want `ctx does not end`
	case *mortise.HeldError:
		return errors.Join(err, work(ctx))
	default:
		return work(ctx)
	}
}

func switchOfSomethingElse(ctx context.Context, l *mortise.Lock, kind int) error {
	hold, _, err := l.TryLock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock()
	switch kind {
	case 1:
		return work(ctx) // want `ctx does not end`
	default:
		return work(ctx) // want `ctx does not end`
	}
}

func compound(ctx context.Context, l *mortise.Lock, on bool) error {
	hold, _, err := l.TryLock(ctx)
	if err == nil && hold != nil {
		defer hold.Unlock()
		return work(ctx) // want `ctx does not end`
	}
	if !(err == nil) || !on {
		return work(ctx)
	}
	return work(ctx)
}

func compoundElse(ctx context.Context, l *mortise.Lock, on bool) error {
	hold, _, err := l.TryLock(ctx)
	if err != nil || !on {
		return work(ctx)
	} else if on && nil == err {
		defer hold.Unlock()
		return work(ctx) // want `ctx does not end`
	}
	return nil
}

func noHold(ctx context.Context, l *mortise.Lock) error {
	hold, _, _ := l.TryLock(ctx)
	if hold == nil {
		return work(ctx)
	}
	_ = work(ctx) // want `ctx does not end`
	return hold.Unlock()
}

func oneError(ctx context.Context, l *mortise.Lock, on bool) error {
	hold, _, err := l.TryLock(ctx)
	if err == mortise.ErrLocked {
		return work(ctx)
	}
	if held, ok := errors.AsType[*mortise.HeldError](err); ok {
		return errors.Join(held, work(ctx))
	}
	failed := err != nil
	if failed {
		return work(ctx)
	}
	failed = ctx.Err() != nil
	if failed && on {
		_ = hold.Valid()
	}
	_ = work(ctx) // want `ctx does not end`
	return hold.Unlock()
}

func releasedWhereItIsHeld(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.TryLock(ctx)
	if err == nil {
		_ = hold.Unlock()
	}
	return work(ctx)
}

func tried(ctx context.Context, l *mortise.Lock) error {
	var hold *mortise.Hold
	err := errors.New("not tried")
	for err != nil {
		if hold, _, err = l.TryLock(ctx); err != nil && work(ctx) != nil {
			return err
		}
	}
	defer hold.Unlock()
	return work(ctx) // want `ctx does not end`
}

func switchThatFallsThrough(ctx context.Context, l *mortise.Lock) error {
	switch hold, _, err := l.TryLock(ctx); {
	case errors.Is(err, mortise.ErrLocked):
		fallthrough
	case err != nil || work(ctx) != nil: // want `ctx does not end`
		return work(ctx)
	case err.Error() == "":
		return work(ctx)
	default:
		return errors.Join(work(ctx), hold.Unlock())
	}
}

func copyOfTheError(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.TryLock(ctx)
	failed := err
	if failed != nil {
		return work(ctx)
	}
	defer hold.Unlock()
	return work(ctx) // want `ctx does not end`
}

func errorOfTheError(ctx context.Context, l *mortise.Lock) (err error) {
	hold, _, refused := l.TryLock(ctx)
	if refused != nil {
		err = errors.Join(errors.New("refused"), refused)
	}
	why := err
	if why != nil {
		return work(ctx)
	}
	defer hold.Unlock()
	return work(ctx) // want `ctx does not end`
}

func flagOfTheRelease(ctx context.Context, l *mortise.Lock, early bool) error {
	hold, _, err := l.TryLock(ctx)
	if err != nil {
		return err
	}
	released := false
	if early {
		_ = hold.Unlock()
		released = true
	}
	if released {
		return work(ctx)
	}
	defer hold.Unlock()
	return work(ctx) // want `ctx does not end`
}

func validOrNot(ctx context.Context, l *mortise.Lock) error {
	hold, _, err := l.TryLock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock()
	if !hold.Valid() {
		return work(ctx)
	}
	return work(ctx) // want `ctx does not end`
}
