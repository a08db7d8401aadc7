package main

import (
	"os/exec"
	"testing"
)

// A shell turns a quoted text back into the original.
func TestShellQuote(t *testing.T) {
	for _, text := range []string{"", "a", "a b", "it's", `"$HOME"`, "`id`", "*", "~", "-x", "a\nb", `\`, "!", "ü", "{a,b}", "#", "'", "=ls"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellQuote(text)).Output()
		if got := string(out); got != text || err != nil {
			t.Errorf("%s is %q to a shell (%v), want %q", shellQuote(text), got, err, text)
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
