package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// silent is a driver that fails from some script on.
type silent struct {
	driver.Driver
	from   string // the name of that script
	fails  func(ctx context.Context) error
	broken atomic.Bool
}

func (d *silent) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if call.Script.Name() == d.from {
		d.broken.Store(true)
	}
	if d.broken.Load() {
		return driver.Value{}, d.fails(ctx)
	}
	return d.Driver.Eval(ctx, call)
}

// If a release gets no reply until the end of the lease, the lease counts as lost and the turn
// ends: the next Lock finds out whether Redis serves. If Redis refuses a script, the worker ends.
func TestDemoTurnOutlastsRelease(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return driver.ContextError(ctx, driver.Unknown)
	}
	unreachable := func(context.Context) error {
		return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
	}
	deny := func(context.Context) error {
		return &driver.Error{Class: driver.Denied, Err: errors.New("NOPERM")}
	}
	for _, test := range []struct {
		name    string
		from    string
		fails   func(ctx context.Context) error
		want    error // of the turn
		entered int
		lost    int
	}{
		{"all is well", "", nil, nil, 1, 0},
		{"no reply to the release", "lock_release", hang, nil, 1, 1},
		{"no connection for the release", "lock_release", unreachable, nil, 1, 1},
		{"the release is refused", "lock_release", deny, mortise.ErrDenied, 1, 0},
		{"no connection for Lock", "lock_acquire", unreachable, mortise.ErrUnreachable, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			entered, lost, err := oneTurn(t, test.from, test.fails)
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("turn: %v, want %v", err, test.want)
			}
			if entered != test.entered || len(lost) != test.lost {
				t.Errorf("entered %d times, lost %q; want %d and %d", entered, lost, test.entered, test.lost)
			}
		})
	}
}

// oneTurn makes a worker do one turn with a driver that fails from some script on. It returns what
// the worker has reported, after a check of its file, and how the turn ended.
func oneTurn(t *testing.T, from string, fails func(ctx context.Context) error) (entered int, lost []string, ended error) {
	t.Helper()
	d := &demonstration{}
	if err := d.createCounter(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(d.dir) }()
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		client := mortise.New(&silent{Driver: s.Driver(), from: from, fails: fails}, &mortise.Options{TTL: time.Second, RetryFor: time.Second})
		defer client.Close()
		var out bytes.Buffer
		w := &Worker{Number: 1, File: d.file, Lease: time.Second, out: &out, lock: client.Lock(lockName)}
		ended = w.turn(t.Context())
		events := make(chan event, 64)
		if err := readEvents(&out, events, nil); err != nil {
			t.Fatal(err)
		}
		close(events)
		var log []event
		for e := range events {
			log = append(log, e)
		}
		got := tallyOf(log)
		entered, lost = got.entered, got.lost
		final, err := d.counter()
		if err != nil {
			t.Fatal(err)
		}
		if err := got.verdict(final); final != entered || (err == nil) != (final > 0) {
			t.Errorf("the file says %d, want %d; verdict: %v", final, entered, err)
		}
	})
	return entered, lost, ended
}
