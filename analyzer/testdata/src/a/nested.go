package a

import (
	"context"
	"fmt"

	"github.com/mortise-go/mortise"
)

func none(context.Context) error { return nil }

// An owner may read twice, even if those are two owners.
func nestedRead(ctx context.Context, k *mortise.RWLock) error {
	_ = k.Write().Do(ctx, func(lctx context.Context) error {
		return k.Write().Do(ctx, none) // want `ctx waits for the lock that is held here, unless it has an owner; the context that re-enters is lctx`
	})
	return k.Read().Do(ctx, func(context.Context) error {
		_, _, _ = k.Read().Lock(ctx) // want `the hold is dropped`
		return k.Read().Do(ctx, none)
	})
}

// Each acquisition is one of other permits.
func nestedPermits(ctx context.Context, s *mortise.PermitSemaphore) error {
	return s.Do(ctx, func(context.Context) error { return s.Do(ctx, none) })
}

// It may consist of read sides.
func nestedMulti(ctx context.Context, m *mortise.MultiLock) error {
	return m.Do(ctx, func(context.Context) error { return m.Do(ctx, none) })
}

// It does not wait.
func nestedTry(ctx context.Context, l *mortise.Lock) error {
	return l.Do(ctx, func(context.Context) error {
		if hold, _, err := l.TryLock(ctx); err == nil {
			return hold.Unlock()
		}
		_, err := l.TryDo(ctx, none)
		return err
	})
}

// It waits until this one is over.
func nestedLater(ctx context.Context, l *mortise.Lock) error {
	return l.Do(ctx, func(context.Context) error {
		go l.Do(ctx, none)
		go func() { _ = l.Do(ctx, none) }()
		later(func() error { return l.Do(ctx, none) })
		defer l.Do(ctx, none) // want `ctx waits for the lock`
		return nil
	})
}

func later(func() error) {}

func nestedOthers(ctx context.Context, c *mortise.Client, name string, names []string, next func() string) error {
	_ = c.Lock(next()).Do(ctx, func(context.Context) error { return c.Lock(next()).Do(ctx, none) })
	return c.Lock(name).Do(ctx, func(context.Context) error {
		for _, name := range names {
			_ = c.Lock(name).Do(ctx, none)
		}
		return c.Lock(name).Do(ctx, none) // want `ctx waits for the lock`
	})
}

func nestedOwner(ctx context.Context, l *mortise.Lock) error {
	octx := mortise.WithOwner(ctx)
	_ = l.Do(octx, func(context.Context) error { return l.Do(octx, none) })
	_ = l.Do(ctx, func(lctx context.Context) error {
		dctx := context.WithValue(lctx, 1, 2)
		return l.Do(dctx, func(context.Context) error { return l.Do(dctx, none) })
	})
	hold, lctx, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock()
	return l.Do(lctx, func(context.Context) error { return l.Do(lctx, none) })
}

func lead(ctx context.Context, e *mortise.Election) error {
	_ = e.Lead(ctx, "v", func(lctx context.Context, _ *mortise.Term) error {
		<-ctx.Done()
		return work(ctx) // want `ctx does not end when the lock is lost; the context that does is lctx`
	})
	return e.Lead(ctx, "v", func(context.Context, *mortise.Term) error {
		return work(ctx) // want `ctx does not end when the lock is lost; the context that does is the parameter of the function in line 87, which has no name`
	})
}

func variables(ctx context.Context, l *mortise.Lock, e *mortise.Election) error {
	f := func(context.Context) error {
		return work(ctx) // want `ctx does not end when the lock is lost; the context that does is the parameter of the function in line 93`
	}
	var again func(context.Context) error
	again = func(lctx context.Context) error {
		return l.Do(ctx, again) // want `ctx waits for the lock that is held here, unless it has an owner; the context that re-enters is lctx`
	}
	var lead = func(lctx context.Context, t *mortise.Term) error {
		return work(ctx) // want `ctx does not end when the lock is lost; the context that does is lctx`
	}
	either := func(context.Context) error { return work(ctx) }
	if l == nil {
		either = none
	}
	unused := func(context.Context) error { return work(ctx) }
	_, _ = l.TryDo(ctx, either)
	fmt.Println(l.Do(ctx, f), l.Do(ctx, again), e.Lead(ctx, "v", lead), unused(ctx))
	return f(ctx)
}

func oneAfterTheOther(ctx context.Context, locks []*mortise.Lock) error {
	i := 0
	return locks[i].Do(ctx, func(lctx context.Context) error {
		i++
		return locks[i].Do(ctx, none)
	})
}

func anotherLock(ctx context.Context, c *mortise.Client) error {
	l := c.Lock("a")
	return l.Do(ctx, func(lctx context.Context) error {
		l = c.Lock("b")
		return l.Do(ctx, none)
	})
}
