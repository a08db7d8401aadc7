package lockmgr

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
)

// entry is an acquisition that has ended, for the history of its lock.
type entry struct {
	name  string
	of    record.Acquisition
	ended time.Time
}

// mostEntries is how many entries are kept until they are written, once a second.
const mostEntries = 1000

// note notes an acquisition that has ended, for the history of its lock. r may be nil.
func (r *recorder) note(o *observation, e *Event, end string) {
	if r == nil || r.client.config.History == 0 {
		return
	}
	a := record.Acquisition{
		Kind: o.kind, Owner: e.Owner, Host: r.self.Host, PID: r.self.PID, App: r.self.App, Command: record.CutText(r.self.Extra[record.Command]), Token: e.Token, How: o.how.String(),
		Waited: o.held.Sub(o.start).Microseconds(), Held: e.Held.Microseconds(), End: end,
	}
	r.mu.Lock()
	if len(r.entries) < mostEntries {
		r.entries = append(r.entries, entry{o.name, a, time.Now()})
	} else {
		r.client.counters.unrecorded.Add(1)
	}
	r.mu.Unlock()
	r.lookWithin(writeEvery)
}

// flush writes the entries of histories, and returns when to try again; 0 if none are left. Entries that
// were sent in vain are not sent again: Redis may have some of them.
func (r *recorder) flush(ctx context.Context, now time.Time) time.Duration {
	wait := r.history.wait(now)
	r.mu.Lock()
	entries := r.entries
	if wait == 0 {
		r.entries = nil
	}
	r.mu.Unlock()
	if len(entries) == 0 {
		return 0
	}
	if wait > 0 {
		return wait
	}
	at := make(map[string]int)
	var batches []script.HistoryBatch
	c := r.client
	for _, e := range entries {
		i, ok := at[e.name]
		if !ok {
			i = len(batches)
			at[e.name] = i
			batches = append(batches, script.HistoryBatch{Name: c.config.Prefix + e.name, Most: c.config.History})
		}
		e.of.Ago = time.Since(e.ended).Microseconds()
		batches[i].Entries = append(batches[i].Entries, e.of.Text())
	}
	err := script.HistoryAdd(ctx, c.driver, batches)
	if r.history.tried(now, err); err != nil {
		c.counters.unrecorded.Add(1)
	}
	return 0
}
