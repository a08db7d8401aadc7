package top

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/text/unicode/bidi"
)

// clean returns a text from Redis as it can stand in a cell: quoted, with escapes, if it could do or hide something
// on a terminal, or move what stands next to it. Each rune of what it returns takes one or two columns, whatever
// is next to it, and is shown from left to right.
func clean(text string) string {
	if plainText(text) {
		return text
	}
	var b strings.Builder
	b.WriteByte('"')
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + text[:size])
		case r == ' ' || r != utf8.RuneError && steady(r):
			b.WriteString(text[:size])
		default:
			escape := strconv.QuoteToASCII(text[:size])
			b.WriteString(escape[1 : len(escape)-1])
		}
		text = text[size:]
	}
	b.WriteByte('"')
	return b.String()
}

// plainText reports whether a text needs neither quotes nor escapes.
func plainText(text string) bool {
	for _, r := range text {
		if r == '"' || r == '\\' || r == ' ' || r == utf8.RuneError || !steady(r) {
			return false
		}
	}
	return text != ""
}

// steady reports whether a rune is printable, is not written from right to left, and has the same width for
// all terminals: it joins neither itself nor what is next to it.
func steady(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7f
	}
	if !strconv.IsPrint(r) {
		return false
	}
	p, _ := bidi.LookupRune(r)
	switch p.Class() {
	case bidi.R, bidi.AL, bidi.AN:
		return false
	}
	text := string(r)
	alone := ansi.StringWidthWc(text)
	return alone > 0 && ansi.StringWidth(text) == alone && ansi.StringWidth("a"+text+text+"a") == 2*alone+2
}

// cut returns as much of a clean text as fits into width columns, with … for the rest.
func cut(text string, width int) string {
	if len(text) <= width {
		return text
	}
	return ansi.TruncateWc(text, max(width, 0), "…")
}

// cutMiddle is cut for names that begin alike: their ends stay.
func cutMiddle(text string, width int) string {
	if len(text) <= width {
		return text
	}
	all := ansi.StringWidthWc(text)
	if all <= width || width < 8 {
		return cut(text, width)
	}
	end := (width - 1) / 2
	tail := ansi.TruncateLeftWc(text, all-end, "")
	return ansi.TruncateWc(text, width-1-ansi.StringWidthWc(tail), "") + "…" + tail
}

// left and right put a text into a cell of that width.
func left(text string, width int) string {
	text = cut(text, width)
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidthWc(text)))
}

func right(text string, width int) string {
	text = cut(text, width)
	return strings.Repeat(" ", max(0, width-ansi.StringWidthWc(text))) + text
}

// ageColumns is what an age takes at most.
const ageColumns = 6

// age returns how long something lasts, in at most ageColumns, with as many digits from one second to the next
// as can be: 7s, 3m07s, 2h05m, 12d03h.
func age(d time.Duration) string {
	two := func(n int64) string { return strconv.FormatInt(100+n, 10)[1:] }
	s := int64(max(0, d) / time.Second)
	switch {
	case s < 60:
		return strconv.FormatInt(s, 10) + "s"
	case s < 3600:
		return strconv.FormatInt(s/60, 10) + "m" + two(s%60) + "s"
	case s < 86400:
		return strconv.FormatInt(s/3600, 10) + "h" + two(s/60%60) + "m"
	case s < 100*86400:
		return strconv.FormatInt(s/86400, 10) + "d" + two(s/3600%24) + "h"
	case s < 100_000*86400:
		return strconv.FormatInt(s/86400, 10) + "d"
	}
	return "long"
}

// since returns the age of what began at a time, by Redis' clock; nothing is known if either is zero.
func since(began, now time.Time) string {
	if began.IsZero() || now.IsZero() {
		return "–"
	}
	return age(now.Sub(began))
}

// rest returns what is left until a time, so that it says 0s only when it is over.
func rest(until, now time.Time) string {
	if until.IsZero() || now.IsZero() {
		return "–"
	}
	return age(until.Sub(now) + time.Second - 1)
}

// number returns a number with commas between groups of three digits.
func number(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return number(n/1000) + "," + strconv.Itoa(1000 + n%1000)[1:]
}

// plural returns a number with what is counted.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}
