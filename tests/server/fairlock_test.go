package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

func TestRealFairLocksThatShareAQueue(t *testing.T) {
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		for _, names := range [][2]string{{"job", "{job}"}, {"{job}", "job"}} {
			one, two, three := dial(s.Addr(), nil), dial(s.Addr(), nil), dial(s.Addr(), nil)
			mine, theirs := names[0], names[1]
			hold, _, err := one.FairLock(mine).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			other, _, err := two.FairLock(theirs).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stranger := queueUp(t, three, theirs, 0)
			next := queueUp(t, three, mine, 1)
			start := time.Now()
			mustUnlock(t, hold)
			select {
			case hold := <-next:
				b.Within("the hand-over past a waiter for the other lock", time.Since(start), 3*time.Second)
				mustUnlock(t, hold)
			case <-stranger:
				t.Fatalf("a waiter for %s has it, while another has it", theirs)
			case <-time.After(time.Minute):
				t.Fatal("the next one does not get the lock")
			}
			time.Sleep(time.Second)
			if len(stranger) != 0 || !other.Valid() {
				t.Fatalf("a waiter for %s has it, while another has it", theirs)
			}
			start = time.Now()
			mustUnlock(t, other)
			select {
			case hold := <-stranger:
				b.Within("the hand-over to the waiter at the head", time.Since(start), 3*time.Second)
				mustUnlock(t, hold)
			case <-time.After(time.Minute):
				t.Fatal("the waiter at the head does not get its lock")
			}
		}
	})
}

// queueUp has a waiter of c wait at a place in the queue of the lock job, and
// returns where its hold comes.
func queueUp(t *testing.T, c *mortise.Client, name string, place int) <-chan *mortise.Hold {
	t.Helper()
	got := make(chan *mortise.Hold, 1)
	go func() {
		hold, _, err := c.FairLock(name).Lock(t.Context())
		if err != nil {
			if !errors.Is(err, mortise.ErrClosed) && t.Context().Err() == nil {
				t.Error(err)
			}
			return
		}
		got <- hold
	}()
	redistest.Eventually(t, fmt.Sprintf("%d in the queue", place+1), func() error {
		queue, err := c.FairLock(name).Queue(t.Context())
		if err == nil && len(queue) != place+1 {
			err = fmt.Errorf("%d are in it", len(queue))
		}
		return err
	})
	return got
}

// Order, and a waiter that dies, with the messages and subscriptions of real
// servers.
func TestRealFairLock(t *testing.T) {
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		proxy := redistest.NewProxy(t, s.Addr())
		cut := func() {
			proxy.Refuse()
			proxy.CutAll()
		}
		fairOnServers(t, b, "job", cut, dial(proxy.Addr(), nil), dial(s.Addr(), nil), dial(s.Addr(), nil))
		if n := len(s.Must(t, "KEYS", "redisson*").([]any)); n != 0 {
			t.Errorf("%d keys of the queue are left, want 0", n)
		}
	})
}

// fairOnServers has three clients wait in turn, the first of which dies: cut
// takes it from the net.
func fairOnServers(t *testing.T, b *canary.Bounds, name string, cut func(), victim, one, other *mortise.Client) {
	t.Helper()
	gate, _, err := one.FairLock(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queueUp(t, victim, name, 0)
	var line []<-chan *mortise.Hold
	for i := range 20 {
		line = append(line, queueUp(t, []*mortise.Client{one, other}[i%2], name, 1+i))
	}
	cut()
	start := time.Now()
	last := start
	mustUnlock(t, gate)
	for i, got := range line {
		select {
		case hold := <-got:
			if i == 0 {
				b.Within("the hand-over past a dead waiter", time.Since(start), 2*time.Second)
			}
			b.Within("a hand-over", time.Since(last), 10*time.Second)
			last = time.Now()
			for j, later := range line[i+1:] {
				if len(later) > 0 {
					t.Fatalf("waiter %d had the lock before waiter %d", i+1+j, i)
				}
			}
			mustUnlock(t, hold)
		case <-time.After(time.Minute):
			t.Fatalf("waiter %d does not get the lock", i)
		}
	}
	t.Logf("20 turns behind a dead waiter took %v", time.Since(start).Round(time.Millisecond))
}

func TestRealFairLockOnACluster(t *testing.T) {
	set := redistest.Cluster(t, 0)
	for name, open := range clusterDialers {
		t.Run(name, func(t *testing.T) {
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) { fairOnACluster(t, b, set, name, open) })
		})
	}
}

func fairOnACluster(t *testing.T, b *canary.Bounds, set *redistest.ClusterSet, name string, open func(t *testing.T, addrs []string) driver.Driver) {
	var clients []*mortise.Client
	for range 2 {
		c := mortise.New(open(t, set.Addrs()), nil)
		t.Cleanup(func() { _ = c.Close() }) // may be closed by the test itself
		clients = append(clients, c)
	}
	for i, master := range set.Masters {
		key := set.KeyOn(t, master, fmt.Sprint(name, i))
		f := &faults{Driver: open(t, set.Addrs())}
		victim := mortise.New(f, nil)
		// It cannot say that it leaves, but its connections end.
		die := func() {
			f.Set(func(context.Context, string) error { return errCut }, nil)
			if err := victim.Close(); err != nil {
				t.Error(err)
			}
		}
		fairOnServers(t, b, key, die, victim, clients[0], clients[1])
	}
}

// fairUsesItsRights does all that a fair lock can do; asked is the driver of
// other.
func fairUsesItsRights(t *testing.T, b *canary.Bounds, c, other *mortise.Client, asked *faults, name string) {
	t.Helper()
	k := c.FairLock(name)
	hold, ctx, err := k.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inner, _, err := k.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mustUnlock(t, inner)
	// One gives up, and one is woken.
	waiting, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, _, err := other.FairLock(name).Lock(waiting)
		gaveUp <- err
	}()
	redistest.Eventually(t, "the other one looks after its place", func() error {
		queue, err := k.Queue(t.Context())
		if err == nil && (len(queue) != 1 || asked.Answered("fair_tend") == 0) {
			err = fmt.Errorf("%d are in the queue", len(queue))
		}
		return err
	})
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) || errors.Is(err, mortise.ErrDenied) {
		t.Errorf("a wait that was cancelled: %v", err)
	}
	redistest.Eventually(t, "the other one has left", func() error {
		queue, err := k.Queue(t.Context())
		if err == nil && len(queue) != 0 {
			err = fmt.Errorf("%d are in the queue", len(queue))
		}
		return err
	})
	got := queueUp(t, other, name, 0)
	released := time.Now()
	mustUnlock(t, hold)
	select {
	case hold = <-got:
		b.Within("the hand-over, sooner than by looking", time.Since(released), 700*time.Millisecond)
	case <-time.After(time.Minute):
		t.Fatal("the waiter was not woken")
	}
	if by, err := k.ForceUnlock(t.Context()); err != nil || by == nil || by.Owner != hold.Owner() {
		t.Errorf("ForceUnlock = %v, %v, want the owner %s", by, err, hold.Owner())
	}
}
