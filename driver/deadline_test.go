package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
)

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		at := start.Add(time.Minute)
		ctx := driver.Until(at)
		defer ctx.Stop()
		if got, ok := ctx.Deadline(); !ok || !got.Equal(at) {
			t.Errorf("Deadline = %v, %v, want %v", got, ok, at)
		}
		time.Sleep(time.Minute - 1)
		if err := ctx.Err(); err != nil {
			t.Errorf("%v before the end", err)
		}
		<-ctx.Done()
		if got := time.Since(start); got != time.Minute {
			t.Errorf("Done after %v, want a minute", got)
		}
		if err := context.Context(ctx).Err(); err != context.DeadlineExceeded {
			t.Errorf("Err = %v", err)
		}
		<-ctx.Done() // again

		over := context.Context(driver.Until(start))
		<-over.Done()
		if err := over.Err(); err != context.DeadlineExceeded {
			t.Errorf("Err = %v of one that was over from the start", err)
		}
	})
}

// A started timer does not outlive Stop.
func TestDeadlineStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := driver.Until(time.Now().Add(time.Minute))
		done := ctx.Done()
		ctx.Stop()
		time.Sleep(time.Hour)
		select {
		case <-done:
			t.Error("the timer went off although it was stopped")
		default:
		}
	})
}
