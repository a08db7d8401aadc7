package memredis_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// In a synctest bubble the hours of a lease pass in no real time. This tests how the application's
// work reacts to the loss of its lock.
func TestReportStopsWhenTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := memredis.New()
		defer redis.Close()
		here, operator := mortise.New(redis.Driver(), nil), mortise.New(redis.Driver(), nil)
		defer here.Close()
		defer operator.Close()

		start := time.Now()
		reports := Reports{Locks: here, Write: func(ctx context.Context) error {
			select {
			case <-time.After(8 * time.Hour):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}
		time.AfterFunc(3*time.Hour, func() {
			if holder, err := operator.Lock("report:nightly").ForceUnlock(t.Context()); err != nil || holder == nil {
				t.Errorf("ForceUnlock: %v, %v, want the holder", holder, err)
			}
		})
		if err := reports.Nightly(t.Context()); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Nightly: %v, want ErrLost", err)
		}
		if d := time.Since(start); d < 3*time.Hour || d > 3*time.Hour+10*time.Second {
			t.Errorf("it stopped after %v, want three hours and a third of a lease at most", d)
		}
	})
}
