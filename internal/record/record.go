// Package record has the forms of what clients publish about themselves in Redis: the record of a
// client, and the entries of a lock's history. Anybody may have written what is read, so texts
// are cut and numbers of entries are limited. Nothing that mortise decides about a lock depends on it.
package record

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// TTL is how long a record outlasts its last renewal, Renew how often it is renewed at least,
// and Overdue when a client that has not done so is called silent.
const (
	TTL     = 30 * time.Second
	Renew   = 10 * time.Second
	Overdue = 15 * time.Second
)

// Most is the number of holds, and that of waits, that a record lists at most; the oldest.
const Most = 64

// MaxBody is the length of the longest record that is read, in bytes.
const MaxBody = 256 << 10

// Body is the record of a client. Instants are ms of Redis' clock, but for Started, which is by
// the clock of the process' own machine.
type Body struct {
	Host    string            `json:"host"`
	PID     int               `json:"pid"`
	App     string            `json:"app,omitempty"`
	Version string            `json:"version,omitempty"`
	Started int64             `json:"started"`
	Extra   map[string]string `json:"extra,omitempty"`
	Mortise string            `json:"mortise,omitempty"`

	Holds     []Hold `json:"holds,omitempty"`
	Waits     []Wait `json:"waits,omitempty"`
	HoldCount int    `json:"hold_count,omitempty"`
	WaitCount int    `json:"wait_count,omitempty"`
	// Confirmed is an edition of the record that was in Redis before the client looked at what
	// this one describes. It is 0 unless the client waits under a lease.
	Confirmed uint64 `json:"confirmed,omitempty"`
}

// Hold is a lease that the client has.
type Hold struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Owner string `json:"owner"`
	Since int64  `json:"since"`
	Token int64  `json:"token,omitempty"`
	Link  string `json:"link,omitempty"` // how to refer to the hold elsewhere, such as a traceparent
}

// Wait is a goroutine that waits.
type Wait struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Owner  string `json:"owner,omitempty"` // the id by which the queue of a fair lock knows it
	Since  int64  `json:"since"`
	Serial uint64 `json:"serial"` // of the wait: the client has no other with that number
	For    string `json:"for,omitempty"`
	// Under are the leases under which it waits, and no other goroutine of the client.
	Under []Under `json:"under,omitempty"`
	Fails bool    `json:"fails,omitempty"` // it is to fail if it waits in a cycle
	// More is how many other goroutines wait for the same that the record does not list. The queue of a
	// fair lock has all of its own.
	More int `json:"more,omitempty"`
}

// Under is a lease under which a goroutine waits.
type Under struct {
	Name  string `json:"name"`
	Owner string `json:"owner"`
}

// Command is the key of the entry of Extra that names what the process runs under its locks.
const Command = "command"

// Limits of texts, in bytes.
const (
	maxText  = 256 // of a host, an application, a version
	maxName  = 1024
	maxOwner = 256
	maxLink  = 128
	maxExtra = 16
	MaxExtra = 1 << 10 // of all extra entries
	maxEntry = 4 << 10 // of an entry of a history, and of a request
)

// Text returns the body as it is stored. It leaves out the youngest holds and waits of a body that is
// too long to be read.
func (b *Body) Text() string {
	for {
		text, _ := json.Marshal(b) // has only texts and numbers
		if len(text) <= MaxBody || len(b.Holds)+len(b.Waits) == 0 {
			return string(text)
		}
		short := *b
		short.Holds, short.Waits = b.Holds[:len(b.Holds)/2], b.Waits[:len(b.Waits)/2]
		b = &short
	}
}

// Parse reads a stored body. It reports false if the text is none.
func Parse(text string) (b Body, ok bool) {
	if len(text) > MaxBody || json.Unmarshal([]byte(text), &b) != nil {
		return Body{}, false
	}
	b.Host, b.App, b.Version, b.Mortise = cut(b.Host, maxText), cut(b.App, maxText), cut(b.Version, maxText), cut(b.Mortise, maxText)
	size := 0
	for key, value := range b.Extra {
		size += len(key) + len(value)
	}
	if len(b.Extra) > maxExtra || size > MaxExtra {
		b.Extra = nil
	}
	b.Holds, b.Waits = b.Holds[:min(len(b.Holds), Most)], b.Waits[:min(len(b.Waits), Most)]
	for i := range b.Holds {
		h := &b.Holds[i]
		h.Since = instant(h.Since)
		h.Name, h.Kind, h.Owner, h.Link = cut(h.Name, maxName), cut(h.Kind, maxText), cut(h.Owner, maxOwner), cut(h.Link, maxLink)
	}
	for i := range b.Waits {
		w := &b.Waits[i]
		w.Since = instant(w.Since)
		w.Name, w.Kind, w.Owner, w.For = cut(w.Name, maxName), cut(w.Kind, maxText), cut(w.Owner, maxOwner), cut(w.For, maxOwner)
		w.More = max(0, w.More)
		w.Under = w.Under[:min(len(w.Under), Most)]
		for i := range w.Under {
			u := &w.Under[i]
			u.Name, u.Owner = cut(u.Name, maxName), cut(u.Owner, maxOwner)
		}
	}
	b.Started = instant(b.Started)
	b.HoldCount, b.WaitCount = max(b.HoldCount, len(b.Holds)), max(b.WaitCount, len(b.Waits))
	return b, true
}

// Time returns the instant that is ms after the epoch, and the zero time for one that is not known.
func Time(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// instant returns the instant next to ms that every form of a time can show.
func instant(ms int64) int64 {
	const year9999 = 253_402_300_799_999
	return max(1, min(ms, year9999))
}

// Clean makes the identity of b fit to be stored.
func (b *Body) Clean() {
	b.Host, b.App, b.Version = clean(b.Host), clean(b.App), clean(b.Version)
}

func clean(text string) string { return cut(strings.ToValidUTF8(text, "?"), maxText) }

// cut returns the beginning of text, of at most n bytes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// CutText returns the beginning of text, as much as an entry of a history has of one.
func CutText(text string) string { return cut(text, maxText) }

// CutLink returns link, or an empty text if it is too long.
func CutLink(link string) string {
	if len(link) > maxLink {
		return ""
	}
	return link
}

// Acquisition is one entry of the history of a lock. Times are in µs.
type Acquisition struct {
	Kind  string `json:"kind"`
	Owner string `json:"owner"`
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	App   string `json:"app,omitempty"`
	// Command is the entry of the identity's Extra with that key.
	Command string `json:"command,omitempty"`
	Token   int64  `json:"token,omitempty"`
	How     string `json:"how"`
	Waited  int64  `json:"waited_us"`
	Held    int64  `json:"held_us"`
	End     string `json:"end"`
	Ago     int64  `json:"ago_us,omitempty"` // how long before the entry was written it ended
}

// Text returns the entry as it is stored.
func (a *Acquisition) Text() string {
	text, _ := json.Marshal(a)
	return string(text)
}

// ParseAcquisition reads a stored entry. It reports false if the text is none.
func ParseAcquisition(text string) (a Acquisition, ok bool) {
	if len(text) > maxEntry || json.Unmarshal([]byte(text), &a) != nil || a.Owner == "" {
		return Acquisition{}, false
	}
	a.Kind, a.Owner, a.Host, a.App, a.How, a.End = cut(a.Kind, maxText), cut(a.Owner, maxOwner), cut(a.Host, maxText), cut(a.App, maxText), cut(a.How, maxText), cut(a.End, maxText)
	a.Command = cut(a.Command, maxText)
	a.Waited, a.Held, a.Ago = max(a.Waited, 0), max(a.Held, 0), max(a.Ago, 0)
	return a, true
}

// Request is what a holder receives when it is asked to release a lock.
type Request struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	ID     string `json:"id,omitempty"`    // distinguishes it from others with the same words
	Since  int64  `json:"since,omitempty"` // since when the asked holder has the lock, as Hold.Since; 0 if that is not known
}

// Text returns the request as it is stored.
func (r *Request) Text() string {
	cutTo := *r
	cutTo.By, cutTo.Reason = cut(r.By, maxText), cut(r.Reason, maxText)
	text, _ := json.Marshal(cutTo)
	return string(text)
}

// ParseRequest reads a stored request. It reports false if the text is none.
func ParseRequest(text string) (r Request, ok bool) {
	if len(text) > maxEntry || json.Unmarshal([]byte(text), &r) != nil {
		return Request{}, false
	}
	r.By, r.Reason = cut(r.By, maxText), cut(r.Reason, maxText)
	return r, true
}
