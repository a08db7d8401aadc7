package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// failure is the JSON form of an error, which is stable.
type failure struct {
	Code    int    `json:"code"` // the exit code
	Kind    string `json:"kind"` // the same in a word; see failureKinds
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// failureKinds are the words for exit codes. A signal that ended the command is "signal".
var failureKinds = map[int]string{
	exitOther: "no", exitUsage: "usage", exitUnreachable: "unreachable", exitBug: "internal", exitOutput: "output",
	exitBusy: "busy", exitDenied: "denied", exitLost: "lost", exitNotExec: "not_executable", exitNotFound: "not_found",
}

// wantsJSON reports whether --json was given, also if the command line could not be parsed to its end.
func (a *app) wantsJSON() bool {
	before := a.args
	if i := slices.Index(before, "--"); i >= 0 {
		before = before[:i]
	}
	return a.json || slices.Contains(before, "--json")
}

// writeFailure writes an error as one line of JSON.
func (a *app) writeFailure(f failure) {
	f.Message, f.Hint = harmless(f.Message), harmless(f.Hint)
	f.Kind = failureKinds[f.Code]
	if f.Kind == "" && f.Code > exitSignal {
		f.Kind = "signal"
	}
	e := json.NewEncoder(a.stderr)
	e.SetEscapeHTML(false)
	a.line.around(func() {
		_ = e.Encode(struct { // stderr may be closed
			Error failure `json:"error"`
		}{f})
	})
}

// scriptText matches what Redis and the embedded server say about the place in a script where an error
// happened.
var scriptText = regexp.MustCompile(`,? script: ([0-9a-f]{40}(, on @?user_script:[0-9]+)?|on @?user_script:[0-9]+)\.?` +
	`|ACL failure in script: |Error running script \(call to f?_?[0-9a-f]{40}\): ?` +
	`|@?user_script: ?[0-9]+: ?|<string>:[0-9]+: ?|(?s)\s*stack traceback:.*`)

// withoutScript removes Lua from the text of an error.
func withoutScript(text string) string {
	if !strings.Contains(text, "script") && !strings.Contains(text, "<string>:") {
		return text
	}
	return strings.ReplaceAll(scriptText.ReplaceAllString(text, ""), "The user executing the script", "The user")
}

// said returns a message as it is written.
func said(format string, args ...any) string {
	return harmless(withoutScript(fmt.Sprintf(format, args...)))
}

// harmless returns text with escapes, as in Go, in place of what could play tricks on a terminal. What a
// message repeats is quoted already, but not what a parser of flags or a library repeats.
func harmless(text string) string {
	tricky := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, tricky) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if quoted := strconv.Quote(text[:size]); tricky(r) || r == utf8.RuneError && size == 1 {
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}
