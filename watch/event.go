package watch

import (
	"encoding/json"
	"time"
)

// Type says what happened.
type Type string

// The events.
const (
	Held     Type = "held"     // it was held already when it was seen first
	Acquired Type = "acquired" // a holder has it
	Granted  Type = "granted"  // a waiter has it after another holder: From
	Released Type = "released" // a holder has it no more
	Lost     Type = "lost"     // its lease is gone, and it was not released
	Waiting  Type = "waiting"  // a waiter has come
	GaveUp   Type = "gave_up"  // a waiter has gone, and was not seen to hold it
	Asked    Type = "asked"    // a holder is asked to release it
)

// Event is something that happened to a lock, as far as that is known.
type Event struct {
	Type Type
	Time time.Time // when it happened; if that is not known, when it was seen
	Seen time.Time // when it was seen
	Lock string
	Kind string // as in records and keys

	Party  Party  // the holder or the waiter
	From   *Party // that had the lock before; nil if it is not known
	For    *Party // that a waiter waits for; nil if it is not known
	Token  int64
	Waited time.Duration // -1 if that is not known
	Held   time.Duration // -1 if that is not known
	Unsure bool          // it may have been otherwise
	Why    string

	By, Reason string // of Asked

	since time.Time // of Released, Lost and GaveUp: when it began
}

// Since returns when the hold or the wait began that an event is about; zero if that is not known.
func (e *Event) Since() time.Time { return e.since }

// partyForm is the JSON form of a party.
type partyForm struct {
	Owner   string `json:"owner,omitempty"`
	Client  string `json:"client,omitempty"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	App     string `json:"app,omitempty"`
	Command string `json:"command,omitempty"`
}

// eventForm is the JSON form of an event, which is stable.
type eventForm struct {
	Type   Type       `json:"type"`
	Time   string     `json:"time"`
	Seen   string     `json:"seen"`
	Lock   string     `json:"lock"`
	Kind   string     `json:"kind"`
	Holder *partyForm `json:"holder,omitempty"`
	Waiter *partyForm `json:"waiter,omitempty"`
	From   *partyForm `json:"from,omitempty"`
	For    *partyForm `json:"for,omitempty"`
	Token  int64      `json:"token,omitempty"`
	Waited *int64     `json:"waited_ms,omitempty"`
	Held   *int64     `json:"held_ms,omitempty"`
	Unsure bool       `json:"unsure,omitempty"`
	Why    string     `json:"why,omitempty"`
	By     string     `json:"by,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// Instant returns a time as it is written in JSON: RFC 3339, UTC, with milliseconds.
func Instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// MarshalJSON implements json.Marshaler.
func (e *Event) MarshalJSON() ([]byte, error) {
	f := eventForm{
		Type: e.Type, Time: Instant(e.Time), Seen: Instant(e.Seen), Lock: e.Lock, Kind: e.Kind, From: e.From.form(), For: e.For.form(),
		Token: e.Token, Waited: milliseconds(e.Waited), Held: milliseconds(e.Held), Unsure: e.Unsure, Why: e.Why, By: e.By, Reason: e.Reason,
	}
	if e.Type == Waiting || e.Type == GaveUp {
		f.Waiter = e.Party.form()
	} else {
		f.Holder = e.Party.form()
	}
	return json.Marshal(f)
}

func (p *Party) form() *partyForm {
	if p == nil {
		return nil
	}
	return &partyForm{p.Owner, p.Client, p.Host, p.PID, p.App, p.Command}
}

func milliseconds(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// MarshalJSON implements json.Marshaler.
func (p *Party) MarshalJSON() ([]byte, error) { return json.Marshal(p.form()) }
