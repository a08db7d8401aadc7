package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// awaited is something that a caller can wait for.
type awaited struct {
	party bool  // one that gives up tells Redis before it returns
	busy  error // what the error matches if it was busy for all of the wait
	// occupy makes it busy. It returns the holder, if that is known, and how to free it.
	occupy func(t *testing.T, p party, name string) (holder string, free func())
	// wait waits for it, and gives it back at once.
	wait func(ctx context.Context, p party, name string, limit time.Duration) error
}

// party is the clients of one process: one for each of three servers. All but a Redlock
// use the first only.
type party []*mortise.Client

var waitedFor = func() map[string]awaited {
	all := map[string]awaited{
		"Semaphore": {
			busy:   mortise.ErrNoPermits,
			occupy: occupySemaphore,
			wait: func(ctx context.Context, p party, name string, limit time.Duration) error {
				return p[0].Semaphore(name).With(mortise.WaitOptions{Wait: limit}).Do(ctx, 1, noWork)
			},
		},
		"CountDownLatch": {
			busy:   mortise.ErrMissing,
			occupy: occupyLatch,
			wait: func(ctx context.Context, p party, name string, limit time.Duration) error {
				return p[0].CountDownLatch(name).With(mortise.WaitOptions{Wait: limit}).Wait(ctx)
			},
		},
		"Barrier": {
			party:  true,
			busy:   mortise.ErrMissing,
			occupy: func(*testing.T, party, string) (string, func()) { return "", func() {} },
			wait: func(ctx context.Context, p party, name string, limit time.Duration) error {
				_, err := p[0].Barrier(name, 3).With(mortise.WaitOptions{Wait: limit}).Await(ctx)
				return err
			},
		},
		"DoubleBarrier": {
			party:  true,
			busy:   mortise.ErrMissing,
			occupy: func(*testing.T, party, string) (string, func()) { return "", func() {} },
			wait: func(ctx context.Context, p party, name string, limit time.Duration) error {
				_, _, err := p[0].DoubleBarrier(name, 3).With(mortise.WaitOptions{Wait: limit}).Enter(ctx)
				return err
			},
		},
		"PermitSemaphore": {
			busy:   mortise.ErrNoPermits,
			occupy: occupyPermits,
			wait: func(ctx context.Context, p party, name string, limit time.Duration) error {
				return p[0].PermitSemaphore(name).With(mortise.PermitOptions{Wait: limit}).Do(ctx, noWork)
			},
		},
		"Election": {
			busy:   mortise.ErrLocked,
			occupy: occupyElection,
			wait: func(ctx context.Context, p party, name string, limit time.Duration) error {
				term, _, err := p[0].Election(name).With(mortise.LockOptions{Wait: limit}).Campaign(ctx, "")
				if err != nil {
					return err
				}
				return term.Resign()
			},
		},
	}
	locks := map[string]func(p party, name string, o mortise.LockOptions) taker{
		"RWLock.Read": func(p party, name string, o mortise.LockOptions) taker { return p[0].RWLock(name).Read().With(o) },
		"MultiLock": func(p party, name string, o mortise.LockOptions) taker {
			return mortise.NewMultiLock(p[0].Lock(name), p[0].FairLock(name+":2")).With(o)
		},
		"Redlock": func(p party, name string, o mortise.LockOptions) taker {
			return mortise.NewRedlock(name, p...).With(o)
		},
	}
	for name, k := range kinds {
		locks[name] = func(p party, name string, o mortise.LockOptions) taker { return k.Open(p[0], name, o) }
	}
	for name, open := range locks {
		occupy := open
		if name == "RWLock.Read" {
			occupy = func(p party, name string, o mortise.LockOptions) taker { return p[0].RWLock(name).Write().With(o) }
		}
		all[name] = awaited{
			busy: mortise.ErrLocked,
			occupy: func(t *testing.T, p party, name string) (string, func()) {
				hold, _ := must(t, occupy(p, name, mortise.LockOptions{}), t.Context())
				synctest.Wait() // the third server of a Redlock may join it later
				return hold.Owner(), func() { mustUnlock(t, hold) }
			},
			wait: func(ctx context.Context, p party, name string, limit time.Duration) error {
				return open(p, name, mortise.LockOptions{Wait: limit}).Do(ctx, noWork)
			},
		}
	}
	return all
}()

func noWork(context.Context) error { return nil }

func occupySemaphore(t *testing.T, p party, name string) (string, func()) {
	s := p[0].Semaphore(name)
	if set, err := s.TrySetPermits(t.Context(), 1); err != nil || !set {
		t.Fatal(set, err)
	}
	mustAcquire(t, s, 1)
	return "", func() { mustRelease(t, s, 1) }
}

func occupyPermits(t *testing.T, p party, name string) (string, func()) {
	s := p[0].PermitSemaphore(name)
	if set, err := s.TrySetPermits(t.Context(), 1); err != nil || !set {
		t.Fatal(set, err)
	}
	hold, _, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return "", func() { mustUnlock(t, hold) }
}

func occupyLatch(t *testing.T, p party, name string) (string, func()) {
	l := p[0].CountDownLatch(name)
	if set, err := l.TrySetCount(t.Context(), 1); err != nil || !set {
		t.Fatal(set, err)
	}
	return "", func() { mustCountDown(t, l) }
}

func occupyElection(t *testing.T, p party, name string) (string, func()) {
	term, _, err := p[0].Election(name).Campaign(t.Context(), "leader")
	if err != nil {
		t.Fatal(err)
	}
	return term.Owner(), func() { mustResign(t, term) }
}

// waitFor is how long the waits of these tests last: less than a poll, so that no waiter asks
// twice without a reason.
const waitFor = 300 * time.Millisecond

var errQuit = errors.New("the caller was told to quit")

// waitEnds are the ways in which a wait ends. Each returns what the error must match.
var waitEnds = map[string]func(ctx context.Context) (ended context.Context, limit time.Duration, matches []error){
	"its limit is over": func(ctx context.Context) (context.Context, time.Duration, []error) {
		return ctx, waitFor, nil
	},
	"the deadline of ctx": func(ctx context.Context) (context.Context, time.Duration, []error) {
		ctx, cancel := context.WithTimeout(ctx, waitFor)
		context.AfterFunc(ctx, cancel)
		return ctx, 0, []error{context.DeadlineExceeded}
	},
	"ctx is canceled": func(ctx context.Context) (context.Context, time.Duration, []error) {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(waitFor, func() { cancel(errQuit) })
		return ctx, time.Hour, []error{context.Canceled, errQuit}
	},
}

var errDial = &driver.Error{Class: driver.NotSent, Err: errors.New("dial tcp 127.0.0.1:6379: connect: connection refused")}

func refuseConnections(context.Context, string) error { return errDial }

// waitStates are what a caller waits for. busy says that it is held, and not Redis that is
// waited for.
var waitStates = map[string]struct {
	busy   bool
	own    bool // by a goroutine of the same client
	second bool // another goroutine of the client waits already
	down   bool // there is no connection
	fault  func(context.Context, string) error
}{
	"held by another client":               {busy: true},
	"held by a goroutine of the client":    {busy: true, own: true},
	"second in the queue":                  {busy: true, second: true},
	"second in the queue of the holder":    {busy: true, own: true, second: true},
	"Redis is silent":                      {fault: hang},
	"second in the queue, Redis is silent": {fault: hang, second: true},
	"Redis is down":                        {down: true, fault: refuseConnections},
	"second in the queue, Redis is down":   {down: true, fault: refuseConnections, second: true},
}

// A wait that is over says what it waited for: a holder, or Redis.
func TestWhatAWaitWasFor(t *testing.T) {
	t.Parallel()
	for name, a := range waitedFor {
		t.Run(name, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				n := 0
				for end := range waitEnds {
					for state := range waitStates {
						n++
						testWaitEnd(t, servers, a, state, end, fmt.Sprint("job", n))
					}
				}
			})
		})
	}
}

// openProcess returns the clients of a process, and their faults.
func openProcess(t *testing.T, servers []*memredis.Server) (p party, fs []*faults) {
	t.Helper()
	for _, s := range servers {
		c, f := open(t, s, nil)
		p, fs = append(p, c), append(fs, f)
		if _, err := c.Inspect(t.Context(), "job"); err != nil { // so that it knows the server
			t.Fatal(err)
		}
	}
	return p, fs
}

func testWaitEnd(t *testing.T, servers []*memredis.Server, a awaited, state, end, name string) {
	t.Helper()
	s := waitStates[state]
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, ended by %s: %s", state, end, fmt.Sprintf(format, args...))
	}
	waiter, fs := openProcess(t, servers)
	other, _ := openProcess(t, servers)
	holder, free := "", func() {}
	if s.busy {
		by := other
		if s.own {
			by = waiter
		}
		holder, free = a.occupy(t, by, name)
	}
	for _, f := range fs {
		f.Set(s.fault, nil)
	}
	first := make(chan error, 1)
	before, cancel := context.WithCancel(t.Context())
	defer cancel()
	if s.second {
		go func() { first <- a.wait(before, waiter, name, 0) }()
		synctest.Wait()
	}
	start := time.Now()
	ctx, limit, matches := waitEnds[end](t.Context())
	err := a.wait(ctx, waiter, name, limit)
	if d, want := time.Since(start), a.until(state); d != want {
		fail("it took %v, want %v", d, want)
	}
	wantWaitError(fail, err, a, s.busy, holder, matches)
	if s.down && !errors.Is(err, errDial) {
		fail("%v, want the error of the connection", err)
	}
	for _, f := range fs {
		f.Set(nil, nil)
	}
	free()
	if s.second {
		cancel()
		if err := <-first; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, mortise.ErrBroken) {
			fail("the first waiter: %v", err)
		}
	}
	for _, p := range []party{waiter, other} {
		for _, c := range p {
			_ = c.Close()
		}
	}
}

// until is how long a wait takes that nothing but its end ends.
func (a awaited) until(state string) time.Duration {
	if s := waitStates[state]; a.party && s.fault != nil && !s.down {
		return waitFor + 5*time.Second // UnlockFor: it may have arrived, and Redis is told that it has left
	}
	return waitFor
}

// wantWaitError checks the error of a wait.
func wantWaitError(fail func(string, ...any), err error, a awaited, busy bool, holder string, matches []error) {
	for _, want := range matches {
		if !errors.Is(err, want) {
			fail("%v, want it to match %v", err, want)
		}
	}
	if matches == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		fail("%v, which matches the error of a context", err)
	}
	if errors.Is(err, a.busy) != busy || errors.Is(err, mortise.ErrUnreachable) == busy {
		fail("%v: it matches %q: %v, and ErrUnreachable: %v", err, a.busy, errors.Is(err, a.busy), errors.Is(err, mortise.ErrUnreachable))
	}
	if busy && !namesObstacle(err, holder) {
		fail("%v, want what was in the way, %s", err, holder)
	}
}

// namesObstacle reports whether err names what was in the way.
func namesObstacle(err error, holder string) bool {
	var held *mortise.HeldError
	var few *mortise.PermitsError
	var missing *mortise.MissingError
	switch {
	case errors.As(err, &held):
		return strings.Contains(holder, held.Owner) && held.Count == 1 && held.TTL > 0 && held.TTL <= 30*time.Second
	case errors.As(err, &few):
		return few.Wanted == 1 && few.Available == 0
	case errors.As(err, &missing):
		return missing.Missing == 1 || missing.Missing == 2
	}
	return false
}

// Waits of one client that end together for one reason have an error each: the end of a call adds to its
// error what is known of the holder, while the callers of others may read theirs.
func TestEndedWaitsShareNoError(t *testing.T) {
	t.Parallel()
	for name, a := range waitedFor {
		if errors.Is(a.busy, mortise.ErrMissing) { // nothing is added to it
			continue
		}
		t.Run(name, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				waiters, _ := openProcess(t, servers)
				other, _ := openProcess(t, servers)
				_, free := a.occupy(t, other, "job")
				const n = 3
				errs := make(chan error, n)
				for range n {
					go func() { errs <- a.wait(t.Context(), waiters, "job", waitFor) }()
				}
				seen := map[error]bool{}
				for range n {
					err := <-errs
					if one := obstacleIn(err); one == nil || seen[one] {
						t.Errorf("%v: the obstacle is missing, or another wait's", err)
					} else {
						seen[one] = true
					}
				}
				free()
			})
		})
	}
}

// obstacleIn returns what was in the way, as err has it.
func obstacleIn(err error) error {
	var held *mortise.HeldError
	var few *mortise.PermitsError
	switch {
	case errors.As(err, &held):
		return held
	case errors.As(err, &few):
		return few
	}
	return nil
}
