package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

// stuckDeploy is a chain of holders of which each waits for the next one. It gets on when the last one
// releases its lock, at the end of the round or when that is asked for.
func (f *Fleet) stuckDeploy(round context.Context, _ *actor) error {
	var all sync.WaitGroup
	defer all.Wait()
	for _, step := range []struct {
		host  string
		locks []string
	}{{"store-1", []string{backup}}, {"db-2", []string{migrate, backup}}, {"api-7", []string{deploy, migrate}}, {"api-8", []string{deploy}}} {
		first := make(chan struct{})
		begun := sync.OnceFunc(func() { close(first) })
		all.Go(func() {
			defer begun()
			c := f.clients[step.host]
			f.note(c.Lock(step.locks[0]).Do(f.ctx, func(ctx context.Context) error {
				begun()
				switch {
				case step.host == "store-1":
					waitFor(ctx, round)
				case len(step.locks) > 1:
					return c.Lock(step.locks[1]).Do(ctx, finish)
				default:
					return finish(ctx)
				}
				return nil
			}))
		})
		select {
		case <-first:
		case <-round.Done():
		}
	}
	return nil
}

// finish does the rest of the work of a process that got on at last.
func finish(ctx context.Context) error {
	pause(ctx, time.Second)
	return nil
}

// waitFor waits until one of two contexts ends.
func waitFor(ctx, round context.Context) {
	select {
	case <-ctx.Done():
	case <-round.Done():
	}
}

// deadlock is two holders that wait for each other. At the end of the round one of them is asked to release
// its lock.
func (f *Fleet) deadlock(round context.Context, _ *actor) error {
	var waits, begun sync.WaitGroup
	begun.Add(2)
	for host, names := range map[string][2]string{"billing-1": {invoice, ledger}, "billing-2": {ledger, invoice}} {
		c := f.clients[host]
		waits.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			f.note(c.Lock(names[0]).Do(f.ctx, func(ctx context.Context) error {
				first()
				begun.Wait() // for the other one, which gets its first lock or fails
				return c.Lock(names[1]).Do(ctx, finish)
			}))
		})
	}
	over, end := context.WithCancel(f.ctx)
	var ask sync.WaitGroup
	ask.Go(func() {
		waitFor(over, round)
		for over.Err() == nil { // a holder can be asked once it has a record
			if _, err := f.look.Ask(over, ledger, "deadlock with "+invoice); over.Err() == nil {
				f.note(err)
			}
			pause(over, time.Second)
		}
	})
	waits.Wait()
	end()
	ask.Wait()
	return nil
}

// edge is a client that holds a lock and is cut off from Redis then, until its lease has ended. Its process
// starts anew then.
func (f *Fleet) edge(p *persona) {
	f.all.Go(func() {
		for f.ctx.Err() == nil {
			if err := f.goSilent(p); err != nil {
				f.note(err)
				pause(f.ctx, time.Second)
			}
		}
	})
}

func (f *Fleet) goSilent(p *persona) error {
	l, c, err := f.join(f.ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()
	hold, ctx, err := c.Lock(sitemap).Lock(f.ctx)
	if err != nil {
		return err
	}
	defer func() {
		l.setCut(false)
		f.note(hold.Unlock())
	}()
	select {
	case <-l.told:
	case <-ctx.Done():
	}
	l.setCut(true)
	<-ctx.Done()
	return nil
}

// The scripts of a thread of Redisson's that holds a plain lock: the field of its owner, with a TTL that is
// renewed, and a message when it is released.
var (
	redissonTake = driver.NewScript("redisson_take", `
if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return {0} end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return {1}`)
	redissonRelease = driver.NewScript("redisson_release", `
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return {0} end
redis.call('publish', ARGV[2], '0')
return {1}`)
)

// redissonThread is the owner that the thread has: Redisson's UUIDs are of version 4.
const redissonThread = "5c0f6c1e-33b4-4d6e-9a51-0d1f8e7b2a90:61"

// redisson holds a lock as Redisson does.
func (f *Fleet) redisson(round context.Context, _ *actor) error {
	key, lease := f.prefix+legacy, "30000"
	for {
		v, err := f.raw.Eval(f.ctx, driver.Call{Script: redissonTake, Keys: []string{key}, Args: []string{redissonThread, lease}})
		if err != nil {
			return err
		}
		held := v.At(0).Int() == 1
		if every := 5 * time.Second; held && pause(round, every) {
			continue // renewed
		}
		if !held && pause(round, time.Second) {
			continue // tries again
		}
		return f.redissonRelease(key)
	}
}

// redissonRelease releases the lock, also when the fleet ends.
func (f *Fleet) redissonRelease(key string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), cleanWithin)
	defer cancel()
	_, err := f.raw.Eval(ctx, driver.Call{Script: redissonRelease, Keys: []string{key}, Args: []string{redissonThread, keyspace.LockChannel(key)}})
	return err
}

// behindRedisson waits for the lock of Redisson's thread, now and then.
func behindRedisson(ctx context.Context, a *actor) error {
	err := a.Lock(legacy).With(mortise.LockOptions{Wait: time.Minute}).Do(ctx, func(ctx context.Context) error {
		a.works(ctx, 200*time.Millisecond, time.Second)
		return nil
	})
	if errors.Is(err, mortise.ErrLocked) {
		return nil
	}
	a.works(ctx, time.Second, 2*time.Second)
	return err
}
