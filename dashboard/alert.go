package dashboard

import (
	"errors"
	"strings"

	"github.com/mortise-go/mortise"
)

// alert is what stands on top of each page because it matters whatever is looked at.
type alert struct {
	Trouble   string // why Redis cannot be read
	Denied    bool
	Age       any    // of what is shown meanwhile
	Missing   string // the servers of a cluster that cannot be read
	Deadlocks []deadlock
}

// deadlock is a cycle of clients that wait for each other.
type deadlock struct {
	Waits []deadlockWait
}

// deadlockWait is one wait of it: each is blocked by the next, and the last one by the first.
type deadlockWait struct {
	Who  who
	Lock name
	By   who
	Last bool
}

// alertOf returns what has to stand on top of each page.
func alertOf(b *Dashboard, p *pen) *alert {
	a := &alert{}
	l := b.poller.state()
	a.Missing = strings.Join(l.Missing, ", ")
	if l.Err != nil {
		a.Trouble, a.Denied = l.Err.Error(), errors.Is(l.Err, mortise.ErrDenied)
		if p.scene.look != nil {
			a.Age = p.Age(p.scene.look.At)
		}
	}
	for _, cycle := range p.scene.deadlocks() {
		var d deadlock
		for i, l := range cycle.waits {
			next := cycle.waits[(i+1)%len(cycle.waits)]
			d.Waits = append(d.Waits, deadlockWait{p.Client(&l.client.ClientInfo), p.Lock(l.wait.Lock), p.Client(&next.client.ClientInfo), i == len(cycle.waits)-1})
		}
		a.Deadlocks = append(a.Deadlocks, d)
	}
	return a
}
