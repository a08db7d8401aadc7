package mortise

import (
	"context"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
)

// Acquisition is one entry of the flight recorder of a lock: see [Options.History].
type Acquisition struct {
	Lock  string `json:"lock"`
	Kind  string `json:"kind"` // as [Event.Kind]
	Owner string `json:"owner"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	App   string `json:"app,omitempty"`
	// Command is the program that the process ran under the lock: see [Identity.Extra].
	Command string        `json:"command,omitempty"`
	Token   int64         `json:"token,omitempty"`
	How     How           `json:"how"`
	Ended   time.Time     `json:"ended"` // by Redis' clock
	Waited  time.Duration `json:"-"`
	Held    time.Duration `json:"-"`
	// End says how it ended: "released", or the [LostReason].
	End string `json:"end"`
}

// History returns the last acquisitions of a lock that have ended, the newest first, of the
// clients that record them (see [Options.History]). most is how many to return at most. An
// acquisition appears about a second after it has ended; that of a process that died, or was
// cut off, before that is missing. A client that may write the keys of locks can forge it.
//
// Errors: those of every method; see the package documentation.
func (c *Client) History(ctx context.Context, name string, most int) ([]Acquisition, error) {
	needContext(ctx)
	o := c.object(name)
	var entries []script.HistoryEntry
	err := o.core.Operate(ctx, func(ctx context.Context, _ script.Publish) (err error) {
		entries, err = script.HistoryRead(ctx, o.core.Client().Config().Driver, o.core.Key(), most)
		return err
	})
	if err != nil {
		return nil, o.fail("history", err)
	}
	list := make([]Acquisition, 0, len(entries))
	for _, e := range entries {
		a, ok := record.ParseAcquisition(e.Text)
		if !ok {
			continue // not ours
		}
		list = append(list, Acquisition{
			Lock: name, Kind: a.Kind, Owner: a.Owner, Host: a.Host, PID: a.PID, App: a.App, Command: a.Command, Token: a.Token, How: How(a.How), Ended: e.At.Add(-time.Duration(a.Ago) * time.Microsecond),
			Waited: time.Duration(a.Waited) * time.Microsecond, Held: time.Duration(a.Held) * time.Microsecond, End: a.End,
		})
	}
	slices.SortStableFunc(list, func(a, b Acquisition) int { return b.Ended.Compare(a.Ended) })
	return list, nil
}
