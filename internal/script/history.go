package script

import (
	"context"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	historyAdd  = load("history_add")
	historyRead = load("history_read")
)

// HistoryTTL is how long the history of a lock outlasts its last entry.
const HistoryTTL = 7 * 24 * time.Hour

// HistoryEntry is an entry of the history of a lock.
type HistoryEntry struct {
	At   time.Time // when it was added, by the server's clock
	Text string
}

// HistoryBatch is entries that are added to the history of one lock.
type HistoryBatch struct {
	Name    string
	Entries []string // the oldest first
	Most    int      // how many entries to keep
}

// HistoryAdd adds entries to the histories of locks, in one batch. It returns the first error; the
// entries of the other locks are added nevertheless.
func HistoryAdd(ctx context.Context, d driver.Driver, batches []HistoryBatch) error {
	calls := make([]driver.Call, len(batches))
	for i, b := range batches {
		args := append([]string{strconv.Itoa(b.Most), millis(HistoryTTL)}, b.Entries...)
		calls[i] = driver.Call{Script: historyAdd, Keys: []string{keyspace.History(b.Name)}, Args: args}
	}
	for _, r := range d.Batch(ctx, calls) {
		if r.Err != nil {
			return r.Err
		}
		if !states(r.Value, 1, 1) || r.Value.Len() != 1 {
			return unexpected(historyAdd, r.Value)
		}
	}
	return nil
}

// HistoryRead reads the last entries of the history of a lock, the newest first.
func HistoryRead(ctx context.Context, d driver.Driver, name string, most int) (list []HistoryEntry, err error) {
	most = max(min(most, maxListed), 1)
	v, err := d.Eval(ctx, driver.Call{Script: historyRead, Keys: []string{keyspace.History(name)}, Args: []string{strconv.Itoa(most)}})
	if err != nil {
		return nil, err
	}
	if !headed(v) || v.Len()%2 != 1 {
		return nil, unexpected(historyRead, v)
	}
	for i := 1; i+1 < v.Len(); i += 2 {
		list = append(list, HistoryEntry{instant(v.At(i).Str()), v.At(i + 1).Str()})
	}
	return list, nil
}
