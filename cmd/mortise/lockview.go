package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

// details describes an object in one line, without its holders: waiting is how many wait for it, and 0 if
// that is shown elsewhere.
func details(s mortise.State, waiting int) string {
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
	if waiting > 0 {
		words = append(words, fmt.Sprintf("%d waiting", waiting))
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
	cmd.Flags().BoolVar(&a.json, "json", false, "write JSON to standard output, and an error as {\"error\": {code, kind, message, hint}} to standard error")
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

// mostNamed is how many holders a message names; show --json lists them.
const mostNamed = 10

// holding describes the holders of a lock.
func holding(s mortise.State) string {
	if allKept(s) {
		return keptText(s.TTL)
	}
	var names []string
	for _, h := range s.Holders {
		names = append(names, ownerText(h, s.Now))
	}
	for _, p := range s.Permits {
		names = append(names, "permit "+shown(p.ID))
	}
	more := s.Unlisted
	if len(names) > mostNamed {
		names, more = names[:mostNamed], more+len(names)-mostNamed
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	until := " without a time limit"
	switch {
	case s.TTL >= 0 && s.Now.IsZero():
		until = fmt.Sprintf(" for another %v unless renewed or released", duration.Round(s.TTL))
	case s.TTL >= 0:
		until = fmt.Sprintf("; the lease lasts for another %v unless renewed or released", duration.Round(s.TTL))
	}
	return "held by " + strings.Join(names, ", ") + until
}

// unlistedText says how much more is held of an object of that kind.
func unlistedText(kind mortise.Kind, more int) string {
	what := map[mortise.Kind]string{mortise.KindPermits: "permit", mortise.KindGroupLock: "value"}[kind]
	return counted(more, "more "+cmp.Or(what, "holder"))
}

// shellQuote returns text as one word of a shell command line. What could do or hide something on
// a terminal is escaped, in a form that bash, zsh and ksh know.
func shellQuote(text string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, hidden) {
		return ansiQuote(text)
	}
	plain := func(r rune) bool {
		return !strings.ContainsRune("_-.:/@%+,=", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	if text != "" && strings.IndexFunc(text, plain) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ansiQuote returns text as $'…', in printable ASCII.
func ansiQuote(text string) string {
	var b strings.Builder
	b.WriteString("$'")
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}

// nameArgs returns a name, and the arguments after it, for a command line of mortise: a name that
// begins like a flag needs -- before it.
func nameArgs(name string, more ...string) string {
	words := shellQuoteAll(append([]string{name}, more...))
	if strings.HasPrefix(name, "-") {
		return "-- " + words
	}
	return words
}

func shellQuoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellQuote(w)
	}
	return strings.Join(quoted, " ")
}
