package watchdog

import (
	"time"

	"github.com/mortise-go/mortise/internal/dice"
)

// hurry is for how long the leases of a watchdog that hurries are spread: those of many clients come at once.
const hurry = 100 * time.Millisecond

// Hurry has all leases looked at soon, also those that are not renewed: the server may have lost them.
func (w *Watchdog) Hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now().mono
	for i := range w.events {
		l := w.events[i].lease
		if l.busy() {
			continue
		}
		if soon := now + dice.N(hurry); !l.wanted() || soon < l.next {
			l.look = l.look || !l.wanted()
			l.next = soon
			w.events[i].at = l.at()
		}
	}
	w.events.order()
	if len(w.events) > 0 {
		w.moved(w.events[0].lease)
	}
}
