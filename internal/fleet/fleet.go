package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

// Options configures a fleet. The zero value of each field is its default.
type Options struct {
	// Seed decides what each client does next, and for how long. What comes of it also depends on who comes
	// first. Default 1.
	Seed uint64
	// Prefix is put before every name, see [mortise.Options.Prefix]. Default: none.
	Prefix string
}

// Fleet is a fleet that runs. Its methods are safe for concurrent use.
type Fleet struct {
	dial    func(context.Context) (driver.Driver, error)
	seed    uint64
	prefix  string
	ctx     context.Context
	cancel  context.CancelFunc
	clients map[string]*mortise.Client // of the crew, by host
	look    *mortise.Client            // of the operator
	raw     driver.Driver              // for what is written as Redisson writes it, and for cleaning up
	stages  map[Scene]*stage
	all     sync.WaitGroup
	stop    sync.Once

	mu     sync.Mutex // guards failed
	failed error
}

// Start starts a fleet. Each client gets a driver of its own from dial, which must not return the same one
// twice. Start blocks until all are connected, and the semaphores are set. Some clients dial again later,
// with the fleet's context.
//
// The fleet runs until [Fleet.Stop] or the end of ctx. The caller must call Stop in either case.
func Start(ctx context.Context, dial func(context.Context) (driver.Driver, error), options *Options) (*Fleet, error) {
	if options == nil {
		options = &Options{}
	}
	f := &Fleet{dial: dial, seed: cmp.Or(options.Seed, 1), prefix: options.Prefix, clients: make(map[string]*mortise.Client)}
	f.ctx, f.cancel = context.WithCancel(ctx)
	if err := f.open(ctx); err != nil {
		f.Stop()
		return nil, err
	}
	f.begin()
	return f, nil
}

// open makes the clients.
func (f *Fleet) open(ctx context.Context) (err error) {
	if f.raw, err = f.dial(ctx); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	for i := range crew {
		if _, f.clients[crew[i].host], err = f.join(ctx, &crew[i]); err != nil {
			delete(f.clients, crew[i].host)
			return err
		}
	}
	if _, f.look, err = f.join(ctx, &operator); err != nil {
		return err
	}
	if err := f.look.PermitSemaphore(gpu).SetPermits(ctx, gpuPermits); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	if _, err := f.look.Semaphore(smtp).TrySetPermits(ctx, smtpPermits); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	return nil
}

// join makes the client of a process, and its link.
func (f *Fleet) join(ctx context.Context, p *persona) (*link, *mortise.Client, error) {
	d, err := f.dial(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("fleet: %s: %w", p.host, err)
	}
	l := newLink(d, p)
	return l, mortise.New(l, p.options(f.prefix)), nil
}

// Stop ends the fleet, and blocks until all of its goroutines have ended, its locks are released, and what
// would stay in Redis is deleted; some seconds at most if Redis does not answer. Keys that end by
// themselves stay until then, for ten minutes at most.
func (f *Fleet) Stop() {
	f.stop.Do(func() {
		f.cancel()
		f.all.Wait()
		for _, c := range f.clients {
			f.all.Go(func() { c.Close() })
		}
		f.all.Wait()
		if f.look != nil {
			f.clean()
			f.look.Close()
		}
		if f.raw != nil {
			_ = f.raw.Close()
		}
	})
}

// Err returns the last error that the fleet did not expect, such as one of the connection to Redis. It goes
// on after errors.
func (f *Fleet) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// note keeps an error, unless it is part of the play, as is everything that an operator can do to a lock.
func (f *Fleet) note(err error) {
	if err == nil || f.ctx.Err() != nil {
		return
	}
	for _, played := range []error{mortise.ErrLost, mortise.ErrRevoked, mortise.ErrLocked, mortise.ErrBroken, mortise.ErrReleased, mortise.ErrDeadlock} {
		if errors.Is(err, played) {
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = err
}

// Scene brings a scene about, keeps it up until Stop, and blocks until clients publish it, or ctx or the
// fleet ends. The silent client cannot be kept, and cannot be hurried: Scene blocks for up to a minute,
// until a client has become silent, which it stays for ten seconds more. So ask for it last.
func (f *Fleet) Scene(ctx context.Context, scene Scene) error {
	if s := f.stages[scene]; s != nil {
		if err := s.keep(ctx, f.ctx); err != nil {
			return fmt.Errorf("fleet: scene %q: %w", scene, err)
		}
	}
	for {
		clients, err := f.look.Clients(ctx)
		if err == nil && scene.shown(clients) {
			return nil
		}
		if err == nil && signs[scene] == nil {
			err = fmt.Errorf("there is none of that name; there are %q", Scenes())
		}
		if err == nil && !pause(ctx, lookEvery) {
			err = context.Cause(ctx)
		}
		if err == nil && f.ctx.Err() != nil {
			err = errors.New("the fleet has ended")
		}
		if err != nil {
			return fmt.Errorf("fleet: scene %q: %w", scene, err)
		}
	}
}

const lookEvery = 100 * time.Millisecond

// actor is a goroutine of a client that does the same kind of thing again and again.
type actor struct {
	*mortise.Client
	host  string
	fleet *Fleet
	dice  *rand.Rand // what it draws follows from the seed and from its name
}

// actor returns an actor that is called name, of the client on host.
func (f *Fleet) actor(host, name string) *actor {
	h := fnv.New64a()
	_, _ = h.Write([]byte(host + "/" + name))
	return &actor{f.clients[host], host, f, rand.New(rand.NewPCG(f.seed, h.Sum64()))}
}

// loop runs work in a goroutine until the fleet stops. After an error it rests.
func (f *Fleet) loop(host, name string, work func(ctx context.Context, a *actor) error) {
	a := f.actor(host, name)
	f.all.Go(func() {
		for f.ctx.Err() == nil {
			if err := work(f.ctx, a); err != nil {
				f.note(err)
				pause(f.ctx, time.Second)
			}
		}
	})
}

// between draws a time.
func (a *actor) between(least, most time.Duration) time.Duration {
	return least + time.Duration(a.dice.Int64N(int64(most-least)))
}

// works pauses for a time that it draws. It reports false if ctx ended before.
func (a *actor) works(ctx context.Context, least, most time.Duration) bool {
	return pause(ctx, a.between(least, most))
}

// pause waits for d, and reports false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
