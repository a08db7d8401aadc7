//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// slowGrip is a hold whose release takes its time.
type slowGrip struct {
	grip
	takes time.Duration
}

func (g slowGrip) Unlock() error {
	timer := time.NewTimer(g.takes)
	defer timer.Stop()
	<-timer.C
	return nil
}

// A signal that comes while the lock is released, as after another one when a terminal is closed, does not keep it
// from being released. It ends the wait for a Redis that does not answer.
func TestSignalsDuringTheRelease(t *testing.T) {
	for what, test := range map[string]struct {
		takes, at time.Duration // of the release, and when the signal comes
		signal    syscall.Signal
		ends      time.Duration
		want      string // of the error
		asked     bool
	}{
		"none":                        {takes: 500 * time.Millisecond, ends: 500 * time.Millisecond},
		"at once":                     {takes: 500 * time.Millisecond, signal: syscall.SIGHUP, ends: 500 * time.Millisecond, asked: true},
		"at once, and no answer":      {takes: time.Hour, signal: syscall.SIGHUP, ends: releaseNotice, want: "was not released; ", asked: true},
		"later, and no answer":        {takes: time.Hour, at: 2 * time.Second, signal: syscall.SIGTERM, ends: 2 * time.Second, want: "was not released; ", asked: true},
		"one that asks for nothing":   {takes: time.Hour, signal: syscall.SIGUSR1, ends: releaseLimit, want: "because Redis does not answer"},
		"of a closed standard error":  {takes: time.Hour, signal: syscall.SIGPIPE, ends: releaseLimit, want: "because Redis does not answer"},
		"none, and no answer":         {takes: time.Hour, ends: releaseLimit, want: "because Redis does not answer"},
		"none, and an answer in time": {takes: 3 * time.Second, ends: 3 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, signals := &app{stderr: new(strings.Builder)}, make(chan os.Signal, 1)
				if test.signal != 0 {
					time.AfterFunc(test.at, func() { signals <- test.signal })
				}
				start := time.Now()
				defer time.Sleep(test.takes) // the release goes on
				asked, err := a.release(slowGrip{takes: test.takes}, &plan{}, signals)
				if took := time.Since(start); took != test.ends || asked != test.asked {
					t.Errorf("it ended after %v, asked: %v; want %v and %v", took, asked, test.ends, test.asked)
				}
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want one with %q", err, test.want)
				}
			})
		})
	}
}
