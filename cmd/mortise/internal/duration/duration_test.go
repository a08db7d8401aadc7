package duration

import (
	"errors"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1m30s": 90 * time.Second, "0": 0, "5": 5 * time.Second,
		"0.25": 250 * time.Millisecond, ".5": 500 * time.Millisecond, "3.": 3 * time.Second, "1500ms": 1500 * time.Millisecond,
	} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-5", "-0.5", "-1s"} {
		if _, err := Parse(text); !errors.Is(err, errNegative) {
			t.Errorf("Parse(%q): %v, want that it is negative", text, err)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "+-1", "1e3", "NaN", "Inf", "inf", "0x10", "1 s", "10d", "9223372037", "9999999999999999999999", "9999999h"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got)
		}
	}
}

func TestRound(t *testing.T) {
	for d, want := range map[time.Duration]string{
		12345 * time.Millisecond: "12s", 1234567 * time.Microsecond: "1.2s", 123456 * time.Microsecond: "123ms", 400 * time.Microsecond: "0s",
	} {
		if got := Round(d).String(); got != want {
			t.Errorf("Round(%v) = %s, want %s", d, got, want)
		}
	}
}

// The help shows the flag's default, and none for 0.
func TestFlag(t *testing.T) {
	var f Flag
	if err := f.Set("1.5"); err != nil || f.String() != "1.5s" {
		t.Errorf("a flag set to 1.5 says %q (%v), want 1.5s", f.String(), err)
	}
	if f = 0; f.String() != "" {
		t.Errorf("a flag that is 0 says %q, want nothing", f.String())
	}
}
