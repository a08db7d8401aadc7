package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoted returns text from elsewhere as it is written in a sentence: quoted, and cut.
func quoted(text string) string {
	const most = 80
	if len(text) <= most {
		return strconv.Quote(text)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strconv.Quote(text[:cut]) + "…"
}

// listed returns the first names of a list, quoted.
func listed(names []string) string {
	const most = 3
	var list []string
	for _, name := range names[:min(len(names), most)] {
		list = append(list, quoted(name))
	}
	text := strings.Join(list, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// word returns text as one word of a shell command line. What could do or hide something on a terminal
// is escaped, in a form that bash, zsh and ksh know.
func word(text string) string {
	plain, printable := text != "", utf8.ValidString(text)
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_-.:/@%+,=", r):
		case strconv.IsPrint(r):
			plain = false
		default:
			plain, printable = false, false
		}
	}
	switch {
	case plain:
		return text
	case printable:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
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

// nameArg returns the name of a lock as an argument of mortise: one that begins like a flag needs -- before.
func nameArg(name string) string {
	if strings.HasPrefix(name, "-") {
		return "-- " + word(name)
	}
	return word(name)
}
