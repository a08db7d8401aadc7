package main

import (
	"time"

	"github.com/mortise-go/mortise"
)

// The JSON form of who. Instants are in UTC, by Redis' clock.

type rollForm struct {
	Clients   []clientForm   `json:"clients"`
	Deadlocks []deadlockForm `json:"deadlocks"`
}

type clientForm struct {
	mortise.ClientInfo
	SilentFor int64      `json:"silent_ms"` // since it has renewed its record
	IsSilent  bool       `json:"silent"`    // for so long that it may have died
	Holds     []holdForm `json:"holds"`
	Waits     []waitForm `json:"waits"`
	HoldCount int        `json:"hold_count"`
	WaitCount int        `json:"wait_count"`
}

type holdForm struct {
	Lock  string    `json:"lock"`
	Kind  string    `json:"kind"`
	Owner string    `json:"owner"`
	Since time.Time `json:"since"`
	Held  int64     `json:"held_ms"`
	Token int64     `json:"token,omitempty"`
}

type waitForm struct {
	Lock   string           `json:"lock"`
	Kind   string           `json:"kind"`
	Since  time.Time        `json:"since"`
	Waited int64            `json:"waited_ms"`
	Under  []string         `json:"under,omitempty"` // the owners of its own under which it waits
	By     []mortise.Holder `json:"held_by"`
}

type deadlockForm struct {
	Waits []deadlockWaitForm `json:"waits"` // each is blocked by the next, and the last one by the first
}

type deadlockWaitForm struct {
	Lock   string             `json:"lock"`
	Client mortise.ClientInfo `json:"client"`
	Since  time.Time          `json:"since"`
}

// form returns the JSON form of r.
func (r *roll) form() rollForm {
	f := rollForm{Clients: []clientForm{}, Deadlocks: []deadlockForm{}}
	for _, c := range r.shown {
		one := clientForm{
			ClientInfo: c.ClientInfo, SilentFor: max(0, c.Silent.Milliseconds()), IsSilent: c.IsSilent(),
			Holds: []holdForm{}, Waits: []waitForm{}, HoldCount: c.HoldCount, WaitCount: c.WaitCount,
		}
		for _, h := range c.Holds {
			one.Holds = append(one.Holds, holdForm{h.Lock, h.Kind, h.Owner, h.Since.UTC(), millis(h.Since, c.Now), h.Token})
		}
		for _, w := range c.Waits {
			one.Waits = append(one.Waits, waitForm{w.Lock, w.Kind, w.Since.UTC(), millis(w.Since, c.Now), w.Under, r.holdersInUTC(w.Lock)})
		}
		f.Clients = append(f.Clients, one)
	}
	for _, d := range r.deadlocks {
		var one deadlockForm
		for _, w := range d.Waits {
			one.Waits = append(one.Waits, deadlockWaitForm{w.Lock, w.Client, w.Since.UTC()})
		}
		f.Deadlocks = append(f.Deadlocks, one)
	}
	return f
}

// holdersInUTC returns the holders of a lock as JSON shows them.
func (r *roll) holdersInUTC(lock string) []mortise.Holder {
	list := []mortise.Holder{}
	for _, h := range r.holdersOf(lock).list {
		h.Since = h.Since.UTC()
		list = append(list, h)
	}
	return list
}
