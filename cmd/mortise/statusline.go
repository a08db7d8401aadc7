package main

import (
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// statusLine is a line at the end of a terminal that is refreshed, and erased in the end. The zero value has
// no terminal; its methods do nothing.
type statusLine struct {
	terminal *os.File // nil if there is none
	erasable bool     // the terminal can erase a line

	mu    sync.Mutex // guards what is written, and shown
	shown bool
}

// open makes out the terminal of the line, if it is one.
func (l *statusLine) open(out *os.File, getenv func(string) string) {
	if term.IsTerminal(int(out.Fd())) {
		kind := getenv("TERM")
		l.terminal, l.erasable = out, kind != "" && kind != "dumb"
	}
}

// visible reports whether this process may write to the terminal: in the background that belongs to another
// one.
func (l *statusLine) visible() bool { return l.terminal != nil && foreground(l.terminal) }

// set shows the first of texts that fits into the line; otherwise as much of the last one as fits.
func (l *statusLine) set(texts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.erasable || !l.visible() {
		return
	}
	l.shown = true
	_, _ = l.terminal.WriteString("\r" + fitting(texts, l.width()) + "\x1b[K") // the terminal may be gone
}

// clear erases the line.
func (l *statusLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
}

// around erases the line and calls write, which writes something else to the terminal.
func (l *statusLine) around(write func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	write()
}

func (l *statusLine) erase() {
	if l.shown && l.visible() {
		_, _ = l.terminal.WriteString("\r\x1b[K") // the terminal may be gone
	}
	l.shown = false
}

// width returns the number of columns for a text. The last column stays empty: a cursor behind it would be in
// the next line.
func (l *statusLine) width() int {
	if width, _, err := term.GetSize(int(l.terminal.Fd())); err == nil && width > 0 {
		return width - 1
	}
	return 79
}

// fitting returns the first of texts that fits into width columns, or the beginning of the last one.
func fitting(texts []string, width int) string {
	text := ""
	for _, text = range texts {
		if columns(text) <= width {
			return text
		}
	}
	var b strings.Builder
	for _, r := range text {
		if width -= runeColumns(r); width < 1 {
			return b.String() + "…"
		}
		b.WriteRune(r)
	}
	return ""
}

func columns(text string) (n int) {
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

// runeColumns returns how many columns a character has at most. A line that is too short does no harm; one that is
// too long could not be erased.
func runeColumns(r rune) int {
	if r >= 0x1100 && r != '…' || r == utf8.RuneError {
		return 2
	}
	return 1
}
