package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// shown returns text that others may have written, so that it can be read, and not be mistaken for anything else: with
// quotes and escapes if it has to be, as spaces at its ends or what cannot be printed.
func shown(text string) string {
	quoted := strconv.Quote(text)
	if text == "" || quoted != `"`+text+`"` || strings.TrimSpace(text) != text || strings.ContainsFunc(text, unicode.IsControl) {
		return quoted
	}
	return text
}

// brief returns the beginning of a text that may be as long as its writer liked.
func brief(text string) string { return cut(text, 80) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// span writes a duration, as the script of the pages does, too.
func span(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case s < 1:
		return "<1s"
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm %02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh %02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd %02dh", s/86400, s/3600%24)
}

// exact writes a duration that has ended.
func exact(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < time.Millisecond:
		return "<1ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return span(d)
}

// grouped writes a number with spaces between groups of three digits, which no line break divides.
func grouped(n int) string {
	text := strconv.Itoa(n)
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

// counted writes a number with what is counted.
func counted(n int, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "s"):
		return grouped(n) + " " + one + "es"
	}
	return grouped(n) + " " + one + "s"
}

// kindWord is the word for a kind of lock, as records and keys have it.
func kindWord(kind string) string {
	if word, ok := kindWords[kind]; ok {
		return word
	}
	return shown(brief(kind))
}

var kindWords = map[string]string{
	"": "", "none": "free", "lock": "lock", "fairlock": "fair lock", "fencedlock": "fenced lock", "spinlock": "spin lock",
	"rwlock": "read/write lock", "rwlock.read": "read lock", "rwlock.write": "write lock", "grouplock": "group lock",
	"multilock": "multi lock", "redlock": "redlock", "semaphore": "semaphore", "permitsemaphore": "permits",
	"latch": "latch", "election": "election", "doublebarrier": "double barrier", "number": "number", "unknown": "something else",
}

// shellWord quotes a word for a shell.
func shellWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"
	switch {
	case word != "" && strings.Trim(word, plain) == "":
		return word
	case utf8.ValidString(word) && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'") // of bash and zsh
	for i := range len(word) {
		switch c := word[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}
