package recorder

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
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

// Ended implements [lease.Recorder].
func (r *Recorder) Ended(o *lease.Call, e outcome.Event, end string) {
	if r.client.Config().History == 0 {
		return
	}
	a := record.Acquisition{
		Kind: o.Kind, Owner: e.Owner, Host: r.self.Host, PID: r.self.PID, App: r.self.App, Command: record.CutText(r.self.Extra[record.Command]), Token: e.Token, How: o.How.String(),
		Waited: o.Held.Sub(o.Start).Microseconds(), Held: e.Held.Microseconds(), End: end,
	}
	r.mu.Lock()
	if len(r.entries) < mostEntries {
		r.entries = append(r.entries, entry{o.Name, a, time.Now()})
	} else {
		r.client.Counters.Unrecorded.Add(1)
	}
	r.mu.Unlock()
	r.lookWithin(writeEvery)
}

// flush writes the entries of histories, and returns when to try again; 0 if none are left. Entries that
// were sent in vain are not sent again: Redis may have some of them.
func (r *Recorder) flush(ctx context.Context, now time.Time) time.Duration {
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
			batches = append(batches, script.HistoryBatch{Name: c.Config().Prefix + e.name, Most: c.Config().History})
		}
		e.of.Ago = time.Since(e.ended).Microseconds()
		batches[i].Entries = append(batches[i].Entries, e.of.Text())
	}
	err := script.HistoryAdd(ctx, c.Driver(), batches)
	if r.history.tried(now, err); err != nil {
		c.Counters.Unrecorded.Add(1)
	}
	return 0
}
