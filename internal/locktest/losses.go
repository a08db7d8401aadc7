package locktest

import (
	"fmt"
)

// Loss is a fault: n replies of a script, or n requests to run it, are lost.
type Loss struct {
	n    int
	What string // "replies" or "requests"
}

var Losses = []Loss{{1, "replies"}, {2, "replies"}, {3, "replies"}, {1, "requests"}, {2, "requests"}, {3, "requests"}}

func (l Loss) String() string { return fmt.Sprintf("%d lost %s", l.n, l.What) }

// Set makes f lose the next replies or requests of the script.
func (l Loss) Set(f *Faults, script string) {
	if l.What == "replies" {
		f.Set(nil, LoseReplies(script, l.n))
	} else {
		f.Set(LoseReplies(script, l.n), nil)
	}
}
