package main

import (
	"os/exec"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1m30s": 90 * time.Second, "0": 0, "5": 5 * time.Second,
		"0.25": 250 * time.Millisecond, ".5": 500 * time.Millisecond, "3.": 3 * time.Second, "1500ms": 1500 * time.Millisecond,
	} {
		if got, err := parseDuration(text); got != want || err != nil {
			t.Errorf("parseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "+-1", "1e3", "NaN", "Inf", "inf", "0x10", "1 s", "10d", "9223372037", "9999999999999999999999", "9999999h"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("parseDuration(%q) = %v, want an error", text, got)
		}
	}
}

// What is quoted for a shell comes out of a shell as it was.
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
