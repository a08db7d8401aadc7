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
	"github.com/mortise-go/mortise/mortisetest"
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

// Processes that seem to wait for each other are named, also if Redis does not answer when they are looked at again.
func TestCyclesThatCannotBeConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := func(id, holds, waits, by string) mortise.ClientState {
			c := mortise.ClientState{Holds: []mortise.ClientHold{{Lock: holds, Owner: id + ":1"}}}
			c.ID, c.Waits = id, []mortise.ClientWait{{Lock: waits, For: by + ":1", Under: []string{id + ":1"}}}
			return c
		}
		c := newCensus([]mortise.ClientState{one("a", "job:a", "job:b", "b"), one("b", "job:b", "job:a", "a")})
		server := mortisetest.NewServer()
		defer server.Close()
		link := server.Link()
		link.Freeze()
		client := mortise.New(link, &mortise.Options{RetryFor: time.Second})
		defer client.Close()
		list, open, err := certainCycles(t.Context(), client, c)
		if len(list) != 0 || len(open) != 1 || !errors.Is(err, mortise.ErrUnreachable) {
			t.Errorf("%v are certain, %v open, %v; want one open, and that Redis is unreachable", list, open, err)
		}
	})
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
