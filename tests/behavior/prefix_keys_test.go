package behavior

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// asked is a driver that records the texts that contain a name.
type asked struct {
	faults
	mu    sync.Mutex // guards texts
	texts []string   // keys, arguments and channels
}

func (d *asked) add(texts ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range texts {
		if strings.Contains(text, "job") {
			d.texts = append(d.texts, text)
		}
	}
}

func (d *asked) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	d.add(slices.Concat(call.Keys, call.Args)...)
	return d.faults.Eval(ctx, call)
}

func (d *asked) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	for _, call := range calls {
		d.add(slices.Concat(call.Keys, call.Args)...)
	}
	return d.faults.Batch(ctx, calls)
}

func (d *asked) Subscriber(sink driver.Sink) driver.Subscriber {
	return &askedSubscriber{d.Driver.Subscriber(sink), d}
}

type askedSubscriber struct {
	driver.Subscriber
	d *asked
}

func (s *askedSubscriber) Subscribe(channel string, sharded bool) {
	s.d.add(channel)
	s.Subscriber.Subscribe(channel, sharded)
}

// Whatever is asked about an object, the prefix is put before its name once.
func TestPrefixIsInEveryKey(t *testing.T) {
	t.Parallel()
	for method, call := range callsAboutJob() {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				d := &asked{faults: faults{Driver: s.Driver()}}
				c := mortise.New(d, &mortise.Options{Prefix: "my:"})
				defer c.Close()
				if _, err := call(t.Context(), c); errors.Is(err, mortise.ErrInvalid) {
					t.Fatal(err)
				}
				for _, text := range d.texts {
					if strings.Count(text, "my:") != 1 || !strings.Contains(text, "my:job") {
						t.Errorf("%q is sent to Redis, want it to contain my:job", text)
					}
				}
				if len(d.texts) == 0 {
					t.Error("nothing was sent to Redis")
				}
			})
		})
	}
}

// callsAboutJob are the calls that the holder or a waiter does not make.
func callsAboutJob() map[string]func(ctx context.Context, c *mortise.Client) (any, error) {
	type client = *mortise.Client
	return map[string]func(ctx context.Context, c client) (any, error){
		"Client.Inspect":          func(ctx context.Context, c client) (any, error) { return c.Inspect(ctx, "job") },
		"Client.UnlockGroup":      func(ctx context.Context, c client) (any, error) { return c.UnlockGroup(ctx, "job", "x:1") },
		"Lock.Inspect":            func(ctx context.Context, c client) (any, error) { return c.Lock("job").Inspect(ctx) },
		"Lock.ForceUnlock":        func(ctx context.Context, c client) (any, error) { return c.Lock("job").ForceUnlock(ctx) },
		"Lock.UnlockOwner":        func(ctx context.Context, c client) (any, error) { return c.Lock("job").UnlockOwner(ctx, "x:1") },
		"FairLock.Queue":          func(ctx context.Context, c client) (any, error) { return c.FairLock("job").Queue(ctx) },
		"FencedLock.CurrentToken": func(ctx context.Context, c client) (any, error) { return c.FencedLock("job").CurrentToken(ctx) },
		"GroupLock.Inspect":       func(ctx context.Context, c client) (any, error) { return c.GroupLock("job", "v").Inspect(ctx) },
		"GroupLock.ForceUnlock":   func(ctx context.Context, c client) (any, error) { return c.GroupLock("job", "v").ForceUnlock(ctx) },
		"ReadLock.ForceUnlock":    func(ctx context.Context, c client) (any, error) { return c.RWLock("job").Read().ForceUnlock(ctx) },
		"WriteLock.ForceUnlock":   func(ctx context.Context, c client) (any, error) { return c.RWLock("job").Write().ForceUnlock(ctx) },
		"WriteLock.UnlockOwner": func(ctx context.Context, c client) (any, error) {
			return c.RWLock("job").Write().UnlockOwner(ctx, "x:1:write")
		},
		"Election.Depose":      func(ctx context.Context, c client) (any, error) { return c.Election("job").Depose(ctx) },
		"Election.DeposeOwner": func(ctx context.Context, c client) (any, error) { return c.Election("job").DeposeOwner(ctx, "x:1") },
		"Election.Observe": func(ctx context.Context, c client) (any, error) {
			for _, err := range c.Election("job").Observe(ctx) {
				return nil, err
			}
			return nil, nil
		},
		"Term.Proclaim": func(ctx context.Context, c client) (any, error) {
			term, _, err := c.Election("job").Campaign(ctx, "a")
			return nil, errors.Join(err, term.Proclaim(ctx, "b"), term.Resign())
		},
		"Semaphore.AddPermits":  func(ctx context.Context, c client) (any, error) { return nil, c.Semaphore("job").AddPermits(ctx, 1) },
		"Semaphore.TryAcquire":  func(ctx context.Context, c client) (any, error) { return nil, c.Semaphore("job").TryAcquire(ctx, 1) },
		"Semaphore.Drain":       func(ctx context.Context, c client) (any, error) { return c.Semaphore("job").Drain(ctx) },
		"Semaphore.Available":   func(ctx context.Context, c client) (any, error) { return c.Semaphore("job").Available(ctx) },
		"Semaphore.Delete":      func(ctx context.Context, c client) (any, error) { return c.Semaphore("job").Delete(ctx) },
		"CountDownLatch.Count":  func(ctx context.Context, c client) (any, error) { return c.CountDownLatch("job").Count(ctx) },
		"CountDownLatch.Delete": func(ctx context.Context, c client) (any, error) { return c.CountDownLatch("job").Delete(ctx) },
		"PermitSemaphore.Set": func(ctx context.Context, c client) (any, error) {
			return nil, c.PermitSemaphore("job").SetPermits(ctx, 1)
		},
		"PermitSemaphore.Available": func(ctx context.Context, c client) (any, error) { return c.PermitSemaphore("job").Available(ctx) },
		"PermitSemaphore.List":      func(ctx context.Context, c client) (any, error) { return c.PermitSemaphore("job").List(ctx) },
		"PermitSemaphore.Release": func(ctx context.Context, c client) (any, error) {
			return c.PermitSemaphore("job").Release(ctx, "00112233445566778899aabbccddeeff")
		},
		"PermitSemaphore.UpdateLease": func(ctx context.Context, c client) (any, error) {
			return c.PermitSemaphore("job").UpdateLease(ctx, "00112233445566778899aabbccddeeff", time.Second)
		},
		"PermitSemaphore.Delete": func(ctx context.Context, c client) (any, error) { return c.PermitSemaphore("job").Delete(ctx) },
	}
}
