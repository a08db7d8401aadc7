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
)

// lockView is a lock as --json shows it. The names are part of the command's
// interface.
type lockView struct {
	Name    string       `json:"name"`
	Kind    string       `json:"kind"`
	Locked  bool         `json:"locked"`
	TTL     int64        `json:"ttl_ms"` // -1 without limit, 0 if not locked
	Holders []holderView `json:"holders"`
}

type holderView struct {
	Owner string `json:"owner"`
	Count int    `json:"count"`
}

func viewOf(s mortise.State) lockView {
	v := lockView{
		Name: s.Name, Kind: string(s.Kind), Locked: s.Locked, TTL: s.TTL.Milliseconds(),
		Holders: []holderView{},
	}
	if s.TTL < 0 {
		v.TTL = -1
	}
	for _, h := range s.Holders {
		v.Holders = append(v.Holders, holderView(h))
	}
	return v
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

// shown is a text from Redis, such as a name, for a terminal: quoted if it
// could do or hide something there.
func shown(text string) string {
	if quoted := strconv.Quote(text); text == "" || quoted != `"`+text+`"` || strings.Contains(text, " ") {
		return quoted
	}
	return text
}

// lasting says for how long a lease lasts.
func lasting(ttl time.Duration) string {
	if ttl < 0 {
		return "no limit"
	}
	return rounded(ttl).String()
}

// holding says who holds a lock.
func holding(s mortise.State) string {
	names := make([]string, len(s.Holders))
	for i, h := range s.Holders {
		names[i] = shown(h.Owner)
	}
	until := "without a time limit"
	if s.TTL >= 0 {
		until = fmt.Sprintf("for another %v unless renewed or released", rounded(s.TTL))
	}
	return fmt.Sprintf("held by %s %s", strings.Join(names, ", "), until)
}

// shellQuote is text as one word of a shell's command line.
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
