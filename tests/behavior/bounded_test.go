package behavior

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// callable is an object of the public API whose methods are tried.
type callable struct {
	name string
	open func(c *mortise.Client) any
}

var callables = []callable{
	{"Client", func(c *mortise.Client) any { return c }},
	{"Lock", func(c *mortise.Client) any { return c.Lock("x") }},
	{"FencedLock", func(c *mortise.Client) any { return c.FencedLock("x") }},
	{"FairLock", func(c *mortise.Client) any { return c.FairLock("x") }},
	{"SpinLock", func(c *mortise.Client) any { return c.SpinLock("x") }},
	{"GroupLock", func(c *mortise.Client) any { return c.GroupLock("x", "a", "b") }},
	{"ReadLock", func(c *mortise.Client) any { return c.RWLock("x").Read() }},
	{"WriteLock", func(c *mortise.Client) any { return c.RWLock("x").Write() }},
	{"MultiLock", func(c *mortise.Client) any { return mortise.NewMultiLock(c.Lock("x"), c.FairLock("y")) }},
	{"Semaphore", func(c *mortise.Client) any { return c.Semaphore("x") }},
	{"PermitSemaphore", func(c *mortise.Client) any { return c.PermitSemaphore("x") }},
	{"CountDownLatch", func(c *mortise.Client) any { return c.CountDownLatch("x") }},
	{"Election", func(c *mortise.Client) any { return c.Election("x") }},
	{"Barrier", func(c *mortise.Client) any { return c.Barrier("x", 2) }},
	{"DoubleBarrier", func(c *mortise.Client) any { return c.DoubleBarrier("x", 2) }},
}

// eachCall calls f for each method of the public API that takes a context.
func eachCall(f func(of callable, method string)) {
	for _, of := range callables {
		for _, method := range callsOf(of) {
			f(of, method)
		}
	}
}

// callsOf returns the methods of an object that take a context.
func callsOf(of callable) (methods []string) {
	c := mortise.New(memredis.New().Driver(), nil)
	defer c.Close()
	t := reflect.TypeOf(of.open(c))
	for i := range t.NumMethod() {
		m := t.Method(i)
		if m.Type.NumIn() > 1 && m.Type.In(1) == contexts {
			methods = append(methods, m.Name)
		}
	}
	return methods
}

// invoke calls a method with arguments that are valid, and returns its error.
func invoke(ctx context.Context, object any, method string) error {
	m := reflect.ValueOf(object).MethodByName(method)
	results := m.Call(append([]reflect.Value{reflect.ValueOf(ctx)}, others(m.Type())...))
	last := results[len(results)-1]
	if last.Kind() == reflect.Func { // an iterator
		var err error
		last.Call([]reflect.Value{reflect.MakeFunc(last.Type().In(0), func(pair []reflect.Value) []reflect.Value {
			err, _ = pair[1].Interface().(error)
			return []reflect.Value{reflect.ValueOf(false)}
		})})
		return err
	}
	err, _ := last.Interface().(error)
	return err
}

// troubles are what may be wrong with Redis. Each call gives up on it.
var troubles = map[string]func(ctx context.Context, script string) error{
	"silent": hang,
	"away": func(context.Context, string) error {
		return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
	},
	"full": func(context.Context, string) error {
		return driver.ReplyError(errors.New("OOM command not allowed when used memory > 'maxmemory'."), "OOM command not allowed when used memory > 'maxmemory'.")
	},
}

// aside is for how long some calls take back what they have done, after they have given up: [mortise.Options.UnlockFor].
var aside = map[string]time.Duration{"Barrier.Await": 5 * time.Second, "DoubleBarrier.Enter": 5 * time.Second}

// No call takes longer than RetryFor allows, whatever its context.
func TestEachCallIsBounded(t *testing.T) {
	const patience = time.Second
	eachCall(func(of callable, method string) {
		if method == "Lead" { // it goes on until its context ends
			return
		}
		for name, trouble := range troubles {
			t.Run(of.name+"."+method+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := memredis.New()
					defer s.Close()
					c, f := open(t, s, &mortise.Options{RetryFor: patience})
					object := of.open(c)
					f.Set(trouble, nil)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					start := time.Now()
					err := invoke(ctx, object, method)
					took := time.Since(start)
					if !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("after %v: %v, want ErrUnreachable", took, err)
					}
					if most := patience + aside[of.name+"."+method]; took > most {
						t.Errorf("it took %v, want %v at most", took, most)
					}
					f.Set(nil, nil)
				})
			})
		}
	})
}

// Nor does one that waits behind others of its client: they all wait for Redis.
func TestEachWaiterIsBounded(t *testing.T) {
	const patience, waiters = time.Second, 5
	eachCall(func(of callable, method string) {
		if !slices.Contains([]string{"Lock", "Acquire", "Campaign", "Wait", "Do"}, method) {
			return
		}
		for name, trouble := range troubles {
			t.Run(of.name+"."+method+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := memredis.New()
					defer s.Close()
					c, f := open(t, s, &mortise.Options{RetryFor: patience})
					object := of.open(c)
					f.Set(trouble, nil)
					var all sync.WaitGroup
					for i := range waiters {
						all.Go(func() {
							time.Sleep(time.Duration(i) * patience / 10)
							start := time.Now()
							err := invoke(t.Context(), object, method)
							took := time.Since(start)
							if !errors.Is(err, mortise.ErrUnreachable) {
								t.Errorf("waiter %d, after %v: %v, want ErrUnreachable", i, took, err)
							}
							if took > patience {
								t.Errorf("waiter %d: it took %v, want %v at most", i, took, patience)
							}
						})
					}
					all.Wait()
					f.Set(nil, nil)
				})
			})
		}
	})
}

// A failure that an acquisition has followed shortens the patience of nobody with the next outage.
func TestPatienceBeginsAnewAfterAnAcquisition(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		f.Set(func(context.Context, string) error { time.Sleep(10 * time.Millisecond); return nil }, loseReplies("lock_acquire", 1))
		start := time.Now()
		first, second := make(chan *mortise.Hold, 1), make(chan error, 1)
		go func() {
			hold, _, err := c.Lock("x").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			first <- hold
		}()
		time.Sleep(5 * time.Millisecond)
		go func() { second <- failure(c.Lock("x").Lock(t.Context())) }() // waits when the reply is lost
		hold := <-first
		time.Sleep(300 * time.Millisecond)
		f.Set(hang, nil) // before it asks
		if err := <-second; !errors.Is(err, mortise.ErrUnreachable) {
			t.Errorf("%v, want ErrUnreachable", err)
		}
		if took := time.Since(start); took < 10*time.Second+500*time.Millisecond {
			t.Errorf("it gave up after %v, want 10s after it has asked, a poll later", took)
		}
		f.Set(nil, nil)
		mustUnlock(t, hold)
	})
}

// TryLock waits for nobody, but for Redis as long as Wait says.
func TestTryLockWaitsForRedisAsLongAsWaitSays(t *testing.T) {
	const limit = 300 * time.Millisecond
	options := mortise.LockOptions{Wait: limit}
	for name, try := range map[string]func(c *mortise.Client) error{
		"Lock": func(c *mortise.Client) error { return failure(c.Lock("x").With(options).TryLock(context.Background())) },
		"FairLock": func(c *mortise.Client) error {
			return failure(c.FairLock("x").With(options).TryLock(context.Background()))
		},
		"MultiLock": func(c *mortise.Client) error {
			return failure(mortise.NewMultiLock(c.Lock("x").With(options), c.Lock("y")).TryLock(context.Background()))
		},
		"Semaphore": func(c *mortise.Client) error {
			return c.Semaphore("x").With(mortise.WaitOptions{Wait: limit}).TryAcquire(context.Background(), 1)
		},
		"PermitSemaphore": func(c *mortise.Client) error {
			return failure(c.PermitSemaphore("x").With(mortise.PermitOptions{Wait: limit}).TryAcquire(context.Background()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				f.Set(hang, nil)
				start := time.Now()
				if err := try(c); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, want ErrUnreachable", err)
				}
				if took := time.Since(start); took != limit {
					t.Errorf("it took %v, want %v", took, limit)
				}
				f.Set(nil, nil)
			})
		})
	}
}

func failure(_ *mortise.Hold, _ context.Context, err error) error { return err }
