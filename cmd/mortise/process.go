package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

// extraCommand is the entry of an identity with the program that mortise run has started: its base name
// only, because arguments can hold passwords.
const extraCommand = "command"

// identity is what a command that holds something publishes about itself.
func (p *plan) identity() mortise.Identity {
	program := strings.ToValidUTF8(filepath.Base(p.argv[0]), "?")
	return mortise.Identity{App: appName, Extra: map[string]string{extraCommand: brief(program)}}
}

const appName = "mortise"

// processText names the process of a client. Anybody may have written what is known of it.
func processText(i *mortise.ClientInfo) string {
	text := fmt.Sprintf("%s pid %d", shown(brief(i.Host)), i.PID)
	if app := appText(i); app != "" {
		text += " (" + app + ")"
	}
	if i.IsSilent() {
		text += " (silent for " + duration.Round(i.Silent).String() + ")"
	}
	return text
}

// appText names the application of a client, and the program that it runs under a lock.
func appText(i *mortise.ClientInfo) string {
	text := ""
	if i.App != "" {
		text = shown(brief(i.App))
	}
	if program := i.Command(); program != "" {
		text = strings.TrimPrefix(text+": "+shown(brief(program)), ": ")
	}
	return text
}

// brief returns the beginning of a text that may be as long as its writer liked.
func brief(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	n := most
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// ownerText names a holder: its process and for how long it has the lock, or its owner if the process
// is not known. Now is the time of Redis' clock.
func ownerText(h mortise.Holder, now time.Time) string {
	if h.Client == nil {
		return shown(h.Owner)
	}
	return processText(h.Client) + forText(h.Since, now)
}

// forText says for how long something has lasted since then; nothing if that is not known.
func forText(since, now time.Time) string {
	if since.IsZero() || now.IsZero() {
		return ""
	}
	return " for " + duration.Round(max(0, now.Sub(since))).String()
}

// waiterText names a waiter, and for how long it has waited.
func waiterText(w mortise.Waiter, now time.Time) string {
	text := shown(w.Owner)
	if w.Client != nil {
		text = processText(w.Client)
	}
	return text + forText(w.Since, now)
}

// timeText returns an instant as tables show it.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// orDash returns text, or a dash in its place if there is none.
func orDash(text string) string { return cmp.Or(text, "-") }
