package mortiseotel

// Kept returns of how many calls o keeps something.
func (o *Observer) Kept() int {
	o.traces.mu.Lock()
	defer o.traces.mu.Unlock()
	return len(o.traces.calls)
}
