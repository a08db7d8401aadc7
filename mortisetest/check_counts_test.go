package mortisetest

import (
	"testing"
	"time"
)

// A waiter on a bad link may say what Redis answered to those before it, however long ago.
func TestWaitedSince(t *testing.T) {
	wait := func(client, op string, begin, done time.Duration) *call {
		return &call{client: client, op: op, begin: instant{at: begin * time.Second}, done: instant{at: done * time.Second}}
	}
	c := wait("a", "Wait", 60, 65)
	for name, test := range map[string]struct {
		others []*call
		want   time.Duration
	}{
		"alone":                   {nil, 60},
		"behind another":          {[]*call{wait("a", "Wait", 50, 120)}, 50},
		"behind two in a row":     {[]*call{wait("a", "Wait", 50, 120), wait("a", "Wait", 30, 51)}, 30},
		"after another":           {[]*call{wait("a", "Wait", 50, 59)}, 60},
		"beside another client":   {[]*call{wait("b", "Wait", 50, 120)}, 60},
		"beside a count down":     {[]*call{wait("a", "CountDown", 50, 120)}, 60},
		"one that began later":    {[]*call{wait("a", "Wait", 61, 120)}, 60},
		"with a pause in between": {[]*call{wait("a", "Wait", 50, 120), wait("a", "Wait", 30, 49)}, 50},
	} {
		t.Run(name, func(t *testing.T) {
			if got := waitedSince(c, append(test.others, c)); got != (instant{at: test.want * time.Second}) {
				t.Errorf("%v, want %d s", got, int(test.want))
			}
		})
	}
}
