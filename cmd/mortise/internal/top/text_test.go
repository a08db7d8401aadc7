package top

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Nothing that others have written can move what is next to it, or hide.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"order:42": "order:42", "": `""`, "a b": `"a b"`, "ü": "ü", "注文": "注文", "a\x1b[2J": `"a\x1b[2J"`, "a\nb": `"a\nb"`,
		"\u202egnp": `"\u202egnp"`, "\xff": `"\xff"`, `"a"`: `"\"a\""`, `a\b`: `"a\\b"`, "u\u0308": `"u\u0308"`, "שלום": `"\u05e9\u05dc\u05d5\u05dd"`,
		"العربية": `"\u0627\u0644\u0639\u0631\u0628\u064a\u0629"`, "👩\u200d🚀": `"👩\u200d🚀"`, "🇩🇪": `"\U0001f1e9\U0001f1ea"`, "a\u00adb": `"a\u00adb"`, "a\u3000b": `"a\u3000b"`,
		"\ufffd": `"\ufffd"`, "<b>x</b>": "<b>x</b>", "a\U0001f3fbb": `"a\U0001f3fbb"`,
	} {
		if got := clean(text); got != want {
			t.Errorf("clean(%q) = %s, want %s", text, got, want)
		}
	}
}

// Every text fits into its cell, and fills it, however it is counted.
func FuzzCells(f *testing.F) {
	for _, text := range []string{"order:42", "a\x1b[2J\u202e", "注文:42", "u\u0308\u0308", "🇩🇪🇩🇪", "👩\u200d🚀", "שלום", strings.Repeat("\xf0\x9f", 256), "가\u1161각", "\u0e33\u0e33", "\U0001f3fb", "က္က"} {
		f.Add(text, 7)
	}
	f.Fuzz(func(t *testing.T, text string, width int) {
		width = 1 + abs(width)%200
		c := clean(text)
		for what, cell := range map[string]string{"left": left(c, width), "right": right(c, width), "middle": left(cutMiddle(c, width), width)} {
			if wc, clusters := ansi.StringWidthWc(cell), ansi.StringWidth(cell); wc != width || clusters != width {
				t.Errorf("%s of %q (%q) has %d or %d columns, want %d: %q", what, text, c, wc, clusters, width, cell)
			}
			if !utf8.ValidString(cell) || strings.ContainsFunc(cell, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x9b }) {
				t.Errorf("%s of %q is %q", what, text, cell)
			}
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}

func TestCutMiddleShowsBothEnds(t *testing.T) {
	if got, want := cutMiddle("tenant-0001:orders:checkout:payment", 16), "tenant-0…payment"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := cutMiddle("short", 5); got != "short" {
		t.Errorf("%q, want all of it", got)
	}
}

func TestAges(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 999 * time.Millisecond: "0s", 59 * time.Second: "59s", 60 * time.Second: "1m00s", 192 * time.Second: "3m12s",
		time.Hour: "1h00m", 23*time.Hour + 59*time.Minute: "23h59m", 24 * time.Hour: "1d00h", 99*24*time.Hour + 23*time.Hour: "99d23h",
		100 * 24 * time.Hour: "100d", 1<<63 - 1: "long",
	} {
		if got := age(d); got != want || len(got) > ageColumns {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
	now := time.Now()
	for left, want := range map[time.Duration]string{time.Second: "1s", time.Millisecond: "1s", 0: "0s", -time.Hour: "0s", 1001 * time.Millisecond: "2s"} {
		if got := rest(now.Add(left), now); got != want {
			t.Errorf("%v are left, shown as %s, want %s", left, got, want)
		}
	}
	if got := rest(time.Time{}, now); got != "–" {
		t.Errorf("an unknown lease is %s, want –", got)
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 1001002: "1,001,002"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %s, want %s", n, got, want)
		}
	}
}
