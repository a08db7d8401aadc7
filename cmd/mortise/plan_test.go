package main

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// Between two renewals, a third of the TTL, Redis may be silent for two fifths of it and more: that
// is what the help says.
func TestSilenceThatACommandSurvives(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		defaultTTL: 14 * time.Second, 6 * time.Second: 2400 * time.Millisecond, time.Second: 400 * time.Millisecond, time.Minute: 34 * time.Second,
	} {
		p := &plan{ttl: ttl, killAfter: usualKillAfter(ttl)}
		p.reserve()
		if got := (ttl - p.lock.Margin - ttl/3).Round(time.Millisecond); got != want {
			t.Errorf("--ttl %v: a silence of %v ends the command, want %v", ttl, got, want)
		}
	}
}

// The command has the time that --max-hold names, before the margin in which it is ended.
func TestMaxHoldIsTheTimeOfTheCommand(t *testing.T) {
	for _, most := range []time.Duration{20 * time.Millisecond, time.Second, 10 * time.Second, time.Hour} {
		ttl := min(defaultTTL, max(most, shortestTTL))
		p := &plan{ttl: ttl, killAfter: usualKillAfter(ttl), lock: mortise.LockOptions{MaxHold: most}}
		p.reserve()
		if got := p.lock.MaxHold - p.lock.Margin; got != most || p.lock.Margin < p.killAfter+min(ttl/10, time.Second) {
			t.Errorf("--max-hold %v: %v for the command and a margin of %v", most, got, p.lock.Margin)
		}
	}
}
