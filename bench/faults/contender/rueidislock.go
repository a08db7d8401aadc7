package contender

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var rueidislockSystem = newRueidislock("rueidislock", 500*time.Millisecond,
	"TryNextAfter 500 ms instead of 20, so that a busy machine is not taken for a server that is gone")

// rueidislockDefault takes part where the time after which it gives an attempt up matters.
var rueidislockDefault = func() *System {
	s := newRueidislock("rueidislock-20ms", 0, "TryNextAfter 20 ms, its default")
	s.Variant = "r4"
	return s
}()

func newRueidislock(name string, tryNextAfter time.Duration, setting string) *System {
	return &System{
		Name:   name,
		Module: "github.com/redis/rueidis",
		Setting: "KeyMajority 1 (one server) and NoLoopTracking, as in its README; KeyValidity for the lease, else its defaults (renewed " +
			"every half of it); " + setting,
		Key:        func(name string) string { return "rueidislock:0:" + name },
		Tells:      ByLibrary,
		Check:      "ctx.Err, without Redis",
		Subscribes: true,
		Open: func(_ context.Context, c Config) (Client, error) {
			return openRueidislock(c, tryNextAfter)
		},
		Refused: matches(rueidislock.ErrNotLocked),
		Gone:    matches(),
	}
}

type rueidislockClient struct{ locker rueidislock.Locker }

func openRueidislock(c Config, tryNextAfter time.Duration) (Client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{c.Addr}},
		KeyValidity:    c.Lease,
		KeyMajority:    1,
		NoLoopTracking: true,
		TryNextAfter:   tryNextAfter,
	})
	if err != nil {
		return nil, err
	}
	return rueidislockClient{locker}, nil
}

func (r rueidislockClient) Close() { r.locker.Close() }

// Lock implements [Client]. The wait is ended without a deadline, because a deadline of the context
// would also bound the lock.
func (r rueidislockClient) Lock(ctx context.Context, name string, wait time.Duration) (Hold, error) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(wait, cancel)
	held, release, err := r.locker.WithContext(ctx, name)
	if !timer.Stop() && err == nil {
		release()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &rueidislockHold{held, release, cancel}, nil
}

type rueidislockHold struct {
	ctx             context.Context
	release, cancel context.CancelFunc
}

func (h *rueidislockHold) Lost() <-chan struct{} { return h.ctx.Done() }
func (h *rueidislockHold) Token() int64          { return 0 }
func (h *rueidislockHold) Check() error          { return h.ctx.Err() }

// Unlock implements [Hold]. The library's function returns nothing.
func (h *rueidislockHold) Unlock() error {
	h.release()
	h.cancel()
	return nil
}
