package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mortise-go/mortise"
)

// listed is a state as ls --json shows it.
type listed struct {
	mortise.State
	census *census
	blind  bool // the census could not be read
}

// MarshalJSON returns the fields of the state, those of the census about permits, and waiters, their
// number, if it is known.
func (l listed) MarshalJSON() ([]byte, error) {
	var more []field
	if n := l.census.waiting(&l.State); n > 0 || !l.blind {
		more = append(more, field{"waiters", n})
	}
	if p := l.census.permitHolders(&l.State); len(p) > 0 {
		more = append(more, field{"permit_holders", p})
	}
	return withFields(l.State, more...)
}

// field is a field that is added to an object.
type field struct {
	name  string
	value any
}

// withFields returns the JSON form of a value that is an object, with more fields.
func withFields(value any, more ...field) ([]byte, error) {
	text, err := compact(value)
	for _, f := range more {
		var added []byte
		if added, err = compact(f.value); err != nil {
			return nil, err
		}
		text = fmt.Appendf(bytes.TrimSuffix(text, []byte("}")), `,%q:%s}`, f.name, added)
	}
	return text, err
}

// compact returns the JSON form of a value, in one line. HTML is escaped by the writer, if at all.
func compact(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSpace(b.Bytes()), err
}

// permitHolder is the process that has a permit, as --json shows it.
type permitHolder struct {
	ID     string              `json:"id"` // of the permit
	Client *mortise.ClientInfo `json:"client"`
	Since  time.Time           `json:"since"`
	Held   int64               `json:"held_ms"`
}

// permitHolders returns the processes that have the permits in a state, as far as they are known.
func (c *census) permitHolders(s *mortise.State) (list []permitHolder) {
	for _, p := range s.Permits {
		if h := c.permit(s.Name, p.ID); h.Client != nil {
			list = append(list, permitHolder{p.ID, h.Client, h.Since.UTC(), millis(h.Since, c.now)})
		}
	}
	return list
}

// millis returns the milliseconds from since to now, at least 0.
func millis(since, now time.Time) int64 { return max(0, now.Sub(since).Milliseconds()) }
