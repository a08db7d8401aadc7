package main

import (
	"os/exec"
	"testing"
)

// A shell turns a quoted text back into the original.
func TestShellQuote(t *testing.T) {
	for _, text := range []string{"", "a", "a b", "it's", `"$HOME"`, "`id`", "*", "~", "-x", `\`, "!", "ü", "{a,b}", "#", "'", "=ls"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellQuote(text)).Output()
		if got := string(out); got != text || err != nil {
			t.Errorf("%s is %q to a shell (%v), want %q", shellQuote(text), got, err, text)
		}
	}
}

// Nothing that could play tricks on a terminal is shown to be pasted.
func TestShellQuoteHidesNothing(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[2J": `$'a\033[2J'`, "a\nb": `$'a\012b'`, "\u202ea": `$'\342\200\256a'`, "\xff": `$'\377'`, "\x01it's\\": `$'\001it\047s\134'`,
	} {
		if got := shellQuote(text); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestShownCannotHideAnything(t *testing.T) {
	for text, want := range map[string]string{
		"order:42": "order:42", "ü": "ü", "": `""`, "a b": `"a b"`, "a\x1b[2J": `"a\x1b[2J"`,
		"a\nb": `"a\nb"`, "\u202egnp.exe": `"\u202egnp.exe"`, "\xff": `"\xff"`, `"a"`: `"\"a\""`,
	} {
		if got := shown(text); got != want {
			t.Errorf("shown(%q) = %s, want %s", text, got, want)
		}
	}
}
