package lease

// Unwatch makes the watchdog forget the lease, as if it were about to report its loss.
func (l *Lease) Unwatch() { l.client.watchdog.Remove(&l.watch) }

// Lose marks the lease as lost, as the watchdog does before it reports that to the holds.
func (l *Lease) Lose() {
	l.Unwatch()
	why := l.loss(LostUnreachable, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = why
}

// PartsOf returns the leases of a hold.
func PartsOf(h *Hold) []*Lease {
	leases, _ := h.of.Parts()
	return leases
}
