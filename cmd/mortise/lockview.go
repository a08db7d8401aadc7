package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

// lockView is the JSON form of a lock or another object. The names are part of the command's
// interface; fields that a kind does not use are omitted.
type lockView struct {
	Name    string       `json:"name"`
	Kind    string       `json:"kind"`
	Locked  bool         `json:"locked"`
	TTL     int64        `json:"ttl_ms"` // -1 without limit, 0 if not locked
	Holders []holderView `json:"holders"`

	Mode      string       `json:"mode,omitempty"`      // of an rwlock: read or write
	Token     int64        `json:"token,omitempty"`     // the newest fencing token
	Term      int64        `json:"term,omitempty"`      // of an election
	Value     string       `json:"value,omitempty"`     // of an election: the leader's
	Queue     []waiterView `json:"queue,omitempty"`     // of a fairlock
	Available *int64       `json:"available,omitempty"` // of a permitsemaphore
	Number    *int64       `json:"number,omitempty"`    // of a semaphore or latch
	Permits   []permitView `json:"permits,omitempty"`   // of a permitsemaphore: the held ones
}

type holderView struct {
	Owner string `json:"owner"`
	Count int    `json:"count"`
}

type waiterView struct {
	Position int    `json:"position"` // 1 is the next
	Owner    string `json:"owner"`
	Deadline int64  `json:"deadline_ms"` // until Redisson drops it if it is the next; negative if that has passed
}

type permitView struct {
	ID  string `json:"id"`
	TTL int64  `json:"ttl_ms"` // -1 without limit
}

func viewOf(s mortise.State) lockView {
	v := lockView{
		Name: s.Name, Kind: string(s.Kind), Locked: s.Locked, TTL: inMillis(s.TTL),
		Holders: []holderView{}, Mode: s.Mode, Value: s.Value,
	}
	switch s.Kind {
	case mortise.KindElection:
		v.Term = s.Token
	case mortise.KindPermits:
		v.Available = &s.Number
	case mortise.KindNumber:
		v.Number = &s.Number
	default:
		v.Token = s.Token
	}
	for _, h := range s.Holders {
		v.Holders = append(v.Holders, holderView(h))
	}
	for i, w := range s.Queue {
		v.Queue = append(v.Queue, waiterView{i + 1, w.Owner, inMillis(w.Left)})
	}
	for _, p := range s.Permits {
		v.Permits = append(v.Permits, permitView{p.ID, inMillis(p.Left)})
	}
	return v
}

// inMillis returns a time in ms, -1 for any negative one.
func inMillis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// details describes an object besides its holders, in one line.
func details(s mortise.State) string {
	var words []string
	if s.Mode != "" {
		words = append(words, s.Mode)
	}
	switch {
	case s.Kind == mortise.KindElection:
		words = append(words, fmt.Sprintf("term %d", s.Token), "value "+shown(s.Value))
	case s.Token != 0:
		words = append(words, fmt.Sprintf("token %d", s.Token))
	}
	if n := len(s.Queue); n > 0 {
		words = append(words, fmt.Sprintf("%d waiting", n))
	}
	if s.Kind == mortise.KindPermits {
		words = append(words, fmt.Sprintf("%d available", s.Number))
	}
	return strings.Join(words, ", ")
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (a *app) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.json, "json", false, "write JSON to standard output")
}

// shown prepares a text from Redis, such as a name, for a terminal: it is quoted if it could do or
// hide something there.
func shown(text string) string {
	if quoted := strconv.Quote(text); text == "" || quoted != `"`+text+`"` || strings.Contains(text, " ") {
		return quoted
	}
	return text
}

// lasting returns the rest of a lease as text.
func lasting(ttl time.Duration) string {
	if ttl < 0 {
		return "no limit"
	}
	return duration.Round(ttl).String()
}

// holding describes the holders of a lock.
func holding(s mortise.State) string {
	var names []string
	for _, h := range s.Holders {
		names = append(names, shown(h.Owner))
	}
	for _, p := range s.Permits {
		names = append(names, "permit "+shown(p.ID))
	}
	until := "without a time limit"
	if s.TTL >= 0 {
		until = fmt.Sprintf("for another %v unless renewed or released", duration.Round(s.TTL))
	}
	return fmt.Sprintf("held by %s %s", strings.Join(names, ", "), until)
}

// shellQuote returns text as one word of a shell command line.
func shellQuote(text string) string {
	plain := func(r rune) bool {
		return !strings.ContainsRune("_-.:/@%+,=", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	if text != "" && strings.IndexFunc(text, plain) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func shellQuoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellQuote(w)
	}
	return strings.Join(quoted, " ")
}
