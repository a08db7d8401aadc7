package mortise

import (
	"bytes"
	"encoding/json"
	"time"
)

// The JSON forms of what Redis holds are part of the API: mortise show --json prints them,
// too. Times are whole milliseconds, and -1 without limit.

// stateJSON is the form of a State. What a kind does not use is omitted.
type stateJSON struct {
	Name    string     `json:"name"`
	Kind    Kind       `json:"kind"`
	Locked  bool       `json:"locked"`
	TTL     int64      `json:"ttl_ms"`
	Holders []heldJSON `json:"holders"`
	Mine    bool       `json:"mine,omitempty"`

	Unlisted  int          `json:"unlisted,omitempty"`
	Mode      string       `json:"mode,omitempty"`
	Token     int64        `json:"token,omitempty"` // of an election: term
	Term      int64        `json:"term,omitempty"`
	Value     string       `json:"value,omitempty"`
	Queue     []queuedJSON `json:"queue,omitempty"`
	Available *int64       `json:"available,omitempty"` // of a PermitSemaphore
	Number    *int64       `json:"number,omitempty"`    // of a semaphore or a latch
	Permits   []Permit     `json:"permits,omitempty"`
	Now       time.Time    `json:"now,omitzero"` // of Redis' clock, if an instant is in it
}

// heldJSON is the form of a Holder in a State.
type heldJSON struct {
	Holder
	Held *int64 `json:"held_ms,omitempty"`
}

// queuedJSON is the form of a Waiter in a State. Position 1 is the next one.
type queuedJSON struct {
	Position int `json:"position"`
	waiterJSON
	Waited *int64 `json:"waited_ms,omitempty"`
}

type waiterJSON struct {
	Owner  string      `json:"owner"`
	TTL    int64       `json:"ttl_ms"`
	Client *ClientInfo `json:"client,omitempty"`
	Since  time.Time   `json:"since,omitzero"`
	Kind   string      `json:"kind,omitempty"`
}

// form returns the JSON form of w.
func (w *Waiter) form() waiterJSON {
	return waiterJSON{w.Owner, toMillis(w.TTL), w.Client, w.Since.UTC(), w.Kind}
}

// past returns the milliseconds from since to now, and nil if one of them is not known.
func past(since, now time.Time) *int64 {
	if since.IsZero() || now.IsZero() {
		return nil
	}
	ms := max(0, now.Sub(since).Milliseconds())
	return &ms
}

// waiter returns the waiter that the form is of.
func (f *waiterJSON) waiter() Waiter {
	return Waiter{Owner: f.Owner, TTL: fromMillis(f.TTL), Client: f.Client, Since: f.Since, Kind: f.Kind}
}

type permitJSON struct {
	ID  string `json:"id"`
	TTL int64  `json:"ttl_ms"`
}

type leaderJSON struct {
	Value string `json:"value"`
	Owner string `json:"owner"`
	Term  int64  `json:"term"`
	TTL   int64  `json:"ttl_ms"`
}

// MarshalJSON returns the state as an object with the fields name, kind, locked, ttl_ms
// and holders, and those that the kind has: mode; token, or term and value of an
// [Election]; queue, with position, owner and ttl_ms; available and permits, with
// id and ttl_ms; number; mine if true; and unlisted if that is not 0. Of a holder or a waiter whose process is known,
// it also has client, since, and held_ms or waited_ms; instants are in UTC. A time without limit, or a deadline that has
// passed, is -1.
func (s State) MarshalJSON() ([]byte, error) {
	form := stateJSON{
		Name: s.Name, Kind: s.Kind, Locked: s.Locked, TTL: toMillis(s.TTL), Holders: []heldJSON{},
		Mine: s.Mine, Unlisted: s.Unlisted, Mode: s.Mode, Value: s.Value, Permits: s.Permits, Now: s.Now.UTC(),
	}
	for _, h := range s.Holders {
		held := past(h.Since, s.Now)
		h.Since = h.Since.UTC()
		form.Holders = append(form.Holders, heldJSON{h, held})
	}
	switch s.Kind {
	case KindElection:
		form.Term = s.Token
	case KindPermits:
		form.Available = &s.Number
	case KindNumber:
		form.Number = &s.Number
	default:
		form.Token = s.Token
	}
	for i, w := range s.Queue {
		form.Queue = append(form.Queue, queuedJSON{i + 1, w.form(), past(w.Since, s.Now)})
	}
	return marshal(form)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *State) UnmarshalJSON(data []byte) error {
	var form stateJSON
	if err := json.Unmarshal(data, &form); err != nil {
		return err
	}
	*s = State{
		Name: form.Name, Kind: form.Kind, Locked: form.Locked, TTL: fromMillis(form.TTL), Mine: form.Mine,
		Unlisted: form.Unlisted, Mode: form.Mode, Token: form.Token + form.Term, Value: form.Value, Permits: form.Permits, Now: form.Now,
	}
	for _, h := range form.Holders {
		s.Holders = append(s.Holders, h.Holder)
	}
	for _, number := range []*int64{form.Available, form.Number} {
		if number != nil {
			s.Number = *number
		}
	}
	for _, w := range form.Queue {
		s.Queue = append(s.Queue, w.waiter())
	}
	return nil
}

// MarshalJSON returns the waiter as an object with the fields owner and ttl_ms, and if they are
// known client, since and kind.
func (w Waiter) MarshalJSON() ([]byte, error) { return marshal(w.form()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (w *Waiter) UnmarshalJSON(data []byte) error {
	var form waiterJSON
	err := json.Unmarshal(data, &form)
	*w = form.waiter()
	return err
}

// MarshalJSON returns the permit as an object with the fields id and ttl_ms.
func (p Permit) MarshalJSON() ([]byte, error) { return marshal(permitJSON{p.ID, toMillis(p.TTL)}) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Permit) UnmarshalJSON(data []byte) error {
	var form permitJSON
	err := json.Unmarshal(data, &form)
	*p = Permit{form.ID, fromMillis(form.TTL)}
	return err
}

// MarshalJSON returns the leader as an object with the fields value, owner, term and
// ttl_ms.
func (l Leader) MarshalJSON() ([]byte, error) {
	return marshal(leaderJSON{l.Value, l.Owner, l.Term, toMillis(l.TTL)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *Leader) UnmarshalJSON(data []byte) error {
	var form leaderJSON
	err := json.Unmarshal(data, &form)
	*l = Leader{form.Value, form.Owner, form.Term, fromMillis(form.TTL)}
	return err
}

// marshal leaves it to the caller's encoder whether HTML is escaped.
func marshal(form any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(form)
	return b.Bytes(), err
}

func toMillis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

func fromMillis(n int64) time.Duration {
	if n < 0 {
		return -1
	}
	return time.Duration(n) * time.Millisecond
}
