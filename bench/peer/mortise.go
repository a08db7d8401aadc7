package peer

import (
	"context"
	"io"
	"log/slog"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/driver"
	mortisegoredis "github.com/mortise-go/mortise/driver/goredis"
	mortiserueidis "github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/workload"
)

const module = "github.com/mortise-go/mortise"

var mortiseRueidis = &System{
	Name:     "mortise/rueidis",
	Module:   module,
	Settings: "Lock with its defaults: 30 s, renewed every 10 s; rueidis with its own",
	Open:     openMortise(wrapRueidis, (*mortise.Client).Lock, nil),
}

var mortiseGoredis = &System{
	Name:     "mortise/go-redis",
	Module:   module,
	Settings: "Lock with its defaults: 30 s, renewed every 10 s; go-redis with its own",
	Open:     openMortise(wrapGoredis, (*mortise.Client).Lock, nil),
}

var fairRueidis = &System{
	Name:     "mortise fair",
	Module:   module,
	Settings: "FairLock with its defaults; rueidis with its own",
	Open:     openMortise(wrapRueidis, (*mortise.Client).FairLock, nil),
}

var rwRueidis = &System{
	Name:     "mortise RWLock/rueidis",
	Module:   module,
	Settings: "RWLock with its defaults: 30 s, renewed every 10 s; rueidis with its own",
	Sides:    true,
	Open:     opener(wrapRueidis, nil, rwLocks),
}

var rwGoredis = &System{
	Name:     "mortise RWLock/go-redis",
	Module:   module,
	Settings: "RWLock with its defaults: 30 s, renewed every 10 s; go-redis with its own",
	Sides:    true,
	Open:     opener(wrapGoredis, nil, rwLocks),
}

var semaphoreRueidis = &System{
	Name:     "mortise Semaphore/rueidis",
	Module:   module,
	Settings: "Semaphore with its defaults: nothing is renewed; rueidis with its own",
	Permits:  true,
	Open:     opener(wrapRueidis, nil, semaphores),
}

var semaphoreGoredis = &System{
	Name:     "mortise Semaphore/go-redis",
	Module:   module,
	Settings: "Semaphore with its defaults: nothing is renewed; go-redis with its own",
	Permits:  true,
	Open:     opener(wrapGoredis, nil, semaphores),
}

var permitsRueidis = &System{
	Name:     "mortise PermitSemaphore",
	Module:   module,
	Settings: "PermitSemaphore with its defaults: permits of 30 s, renewed every 10 s; rueidis with its own",
	Permits:  true,
	Open:     opener(wrapRueidis, nil, permitSemaphores),
}

// What can be seen of a client, one thing at a time.
var (
	hidden   = observing("mortise hidden", "Identity.Hide: no record", &mortise.Options{Identity: mortise.Identity{Hide: true}})
	observed = observing("mortise observed", "an Observer that does nothing",
		&mortise.Options{Observer: mortise.ObserverFunc(func(mortise.Event) {})})
	logged = observing("mortise logged", "a Logger that writes every line, to io.Discard",
		&mortise.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	recorded = observing("mortise recorded", "Options.History of 100", &mortise.Options{History: 100})
)

// observing is mortise/rueidis with options.
func observing(name, what string, o *mortise.Options) *System {
	return &System{
		Name: name, Module: module, Settings: "as mortise/rueidis, and " + what,
		Open: openMortise(wrapRueidis, (*mortise.Client).Lock, o),
	}
}

func wrapRueidis(addr string) (driver.Driver, func(), error) {
	client, err := newRueidis(addr)
	if err != nil {
		return nil, nil, err
	}
	return mortiserueidis.Wrap(client), client.Close, nil
}

func wrapGoredis(addr string) (driver.Driver, func(), error) {
	client := goredis.NewUniversalClient(&goredis.UniversalOptions{Addrs: strings.Split(addr, ",")})
	return mortisegoredis.Wrap(client), closing(client), nil
}

// locks is a kind of lock of mortise.
type locks interface {
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
}

// opener opens a client with options, and returns what of makes of it.
func opener(wrap func(addr string) (driver.Driver, func(), error), o *mortise.Options, of func(*mortise.Client) workload.Locker) rig.Open {
	return func(_ context.Context, addr string) (workload.Locker, func(), error) {
		d, end, err := wrap(addr)
		if err != nil {
			return nil, nil, err
		}
		client := mortise.New(d, o)
		return of(client), func() { closing(client)(); end() }, nil
	}
}

func openMortise[L locks](wrap func(addr string) (driver.Driver, func(), error), of func(*mortise.Client, string) L, o *mortise.Options) rig.Open {
	return opener(wrap, o, func(client *mortise.Client) workload.Locker {
		return mortiseLocker[L]{func(key string) L { return of(client, key) }}
	})
}

// mortiseLocker locks with one kind of lock.
type mortiseLocker[L locks] struct{ of func(key string) L }

func (m mortiseLocker[L]) Lock(ctx context.Context, key string) (workload.Hold, error) {
	return lock(ctx, m.of(key))
}

// Of implements [workload.Namer].
func (m mortiseLocker[L]) Of(key string) workload.Locker {
	l := m.of(key)
	return lockFunc(func(ctx context.Context, _ string) (workload.Hold, error) { return lock(ctx, l) })
}

func lock(ctx context.Context, l locks) (workload.Hold, error) {
	hold, _, err := l.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return hold, nil
}
