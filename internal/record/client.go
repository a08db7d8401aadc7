package record

import (
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// Client is the record of a client, as it was read.
type Client struct {
	ID      string // of the client
	Body    Body
	Now, At time.Time // when it was read and written, by Redis' clock
	Read    time.Time // when it was read, by this process' clock
	Edition uint64
	Asked   []script.ClientRequest
}

// Hold returns what the record says of the lease with that id, or nil.
func (r *Client) Hold(owner string) *Hold {
	for i := range r.Body.Holds {
		if r.Body.Holds[i].Owner == owner {
			return &r.Body.Holds[i]
		}
	}
	return nil
}

// Since returns since when the client has the lease with that id, by Redis' clock; zero if that is
// not known.
func (r *Client) Since(owner string) time.Time {
	if h := r.Hold(owner); h != nil {
		return Time(h.Since)
	}
	return time.Time{}
}

// WaitsSince returns since when the client waits in the queue of a fair lock under that id, by Redis'
// clock; zero if that is not known.
func (r *Client) WaitsSince(owner string) time.Time {
	for _, w := range r.Body.Waits {
		if w.Owner == owner {
			return Time(w.Since)
		}
	}
	return time.Time{}
}

// CycleWait is one wait of a cycle.
type CycleWait struct {
	Wait
	Record *Client
}

// Same reports whether w and v are the same wait.
func (w CycleWait) Same(v CycleWait) bool {
	return w.Serial == v.Serial && w.Record.ID == v.Record.ID
}
