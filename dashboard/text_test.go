package dashboard

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Durations read the same as in live.js.
func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "<1s", 999 * time.Millisecond: "<1s", time.Second: "1s", 59 * time.Second: "59s", time.Minute: "1m 00s", 61 * time.Second: "1m 01s",
		time.Hour: "1h 00m", 25*time.Hour + 59*time.Minute: "1d 01h", 3*time.Hour + 4*time.Minute + 59*time.Second: "3h 04m",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-1: "–", 0: "<1ms", 42 * time.Millisecond: "42ms", 1500 * time.Millisecond: "1.5s", 70 * time.Second: "1m 10s"} {
		if got := exact(d); got != want {
			t.Errorf("%v is exactly %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// A shell reads a quoted word as what it was made of, whatever that is.
func TestShellWord(t *testing.T) {
	t.Parallel()
	odd := make([]byte, 255)
	for i := range odd {
		odd[i] = byte(i + 1)
	}
	for _, word := range []string{"deploy", "order:42", "", "a b", "it's", "$(reboot)", "`reboot`", "a\nb", "\\", "é ü", string(odd), "\xff'\\"} {
		out, err := exec.Command("bash", "-c", "printf %s "+shellWord(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is quoted as %s, which is %q, %v", word, shellWord(word), out, err)
		}
	}
	if got := shellWord("order:42"); got != "order:42" {
		t.Errorf("a plain word is quoted as %s", got)
	}
	if got := shown("a\u202eb"); strings.Contains(got, "\u202e") {
		t.Errorf("a mark of direction is shown: %q", got)
	}
}

// The user is named to the holder within the length of a reason.
func TestBecause(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, user, want string }{
		{"hotfix", "", "hotfix, on the dashboard"}, {"", "ada", "by ada on the dashboard"}, {"hotfix", "ada", "hotfix, by ada on the dashboard"},
		{strings.Repeat("x", 200), "ada", strings.Repeat("x", 172) + "…, by ada on the dashboard"},
		{"hotfix", strings.Repeat("é", 300), "hotfix, by " + strings.Repeat("é", 40) + "… on the dashboard"},
		{"", "\xff", "by ? on the dashboard"},
	} {
		if got := because(test.reason, test.user); got != test.want || len(got) > mostReason {
			t.Errorf("%q of %q is %q, %d bytes, want %q", test.reason, test.user, got, len(got), test.want)
		}
	}
}
