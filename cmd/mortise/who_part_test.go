package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

// mute is a driver whose server does not answer.
type mute struct {
	driver.Driver
	asked map[string]bool // keys
}

func (mute) Topology(context.Context) (driver.Topology, error) { return driver.Topology{}, nil }
func (mute) Subscriber(driver.Sink) driver.Subscriber          { return nil }
func (mute) Shard(string) string                               { return "" }
func (mute) Close() error                                      { return nil }

func (d mute) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		d.asked[call.Keys[0]] = true
		<-ctx.Done()
		results[i].Err = driver.ContextError(ctx, driver.Unknown)
	}
	return results
}

// Names on servers that do not answer are asked for until the second of them: each takes its time.
func TestHoldersOnSilentServers(t *testing.T) {
	for silent, want := range map[int]int{1: 1, 2: 2, 3: 2} {
		t.Run(fmt.Sprint(silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := mute{asked: make(map[string]bool)}
				client := mortise.New(d, &mortise.Options{RetryFor: time.Second})
				r := roll{census: newCensus(nil)}
				for i := range silent {
					r.shown = append(r.shown, &mortise.ClientState{Waits: []mortise.ClientWait{{Lock: fmt.Sprint("job:", i)}}})
				}
				_, err := r.askForHolders(t.Context(), client)
				if !errors.Is(err, mortise.ErrUnreachable) || len(d.asked) != want {
					t.Errorf("%d names are asked for, %v; want %d, and that Redis is unreachable", len(d.asked), err, want)
				}
			})
		})
	}
}
