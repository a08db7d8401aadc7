package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

func TestWithoutScript(t *testing.T) {
	const sha = "0123456789abcdef0123456789abcdef01234567"
	for text, want := range map[string]string{
		"NOPERM User reader has no permissions to run the 'hset' command script: " + sha + ", on @user_script:12.":           "NOPERM User reader has no permissions to run the 'hset' command",
		"NOPERM ACL failure in script: User reader has no permissions to run the 'hset' command script: on @user_script:50.": "NOPERM User reader has no permissions to run the 'hset' command",
		"OOM command not allowed when used memory > 'maxmemory'. script: " + sha + ", on @user_script:3.":                    "OOM command not allowed when used memory > 'maxmemory'.",
		"ERR Error running script (call to f_" + sha + "): @user_script:4: WRONGTYPE Operation against a key":                "ERR WRONGTYPE Operation against a key",
		"ERR Error running script (call to f_" + sha + "): @user_script:2: @user_script: 2: The user can't run this":         "ERR The user can't run this",
		"ERR user_script:7: attempt to index a nil value script: " + sha + ", on @user_script:7.":                            "ERR attempt to index a nil value",
		"ERR Error running script (call to " + sha + "): <string>:3: WRONGTYPE Operation\nstack traceback:\n\t[G]: in ?\n":   "ERR WRONGTYPE Operation",
		"the lock \"my script: 1\" was lost": "the lock \"my script: 1\" was lost",
	} {
		if got := withoutScript(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// What plays tricks on a terminal is written as an escape, wherever it comes from.
func TestHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"a lock, \"ü\"\n\tand more": "a lock, \"ü\"\n\tand more", "\x1b[2J": `\x1b[2J`, "a\u202eb": `a\u202eb`, "\xff\x9b": `\xff\x9b`, "\u009b": `\u009b`, "\r": `\r`, "�": "�",
	} {
		if got := harmless(text); got != want {
			t.Errorf("harmless(%q) = %q, want %q", text, got, want)
		}
	}
}

// The limit of a wait is the one that was given, not what was left of it when the client was connected.
func TestLimitOfAWait(t *testing.T) {
	a := &app{wait: 100 * time.Second}
	if got := a.textOf(errors.New("gave up waiting: the wait limit of 1m39.987s is over; no answer")); got != "gave up waiting: the wait limit of 1m40s is over; no answer" {
		t.Errorf("the text is %q", got)
	}
}

// The words of another stand in quotation marks, so that they are not taken for those of the command.
func TestRevokedText(t *testing.T) {
	p := &plan{name: "job", what: "lock"}
	if got := p.revokedText(&mortise.RevokedError{By: "api-7 pid 1", Reason: "because"}); !strings.HasSuffix(got, `to release the lock "job": "because"`) {
		t.Errorf("the text is %q, want the reason in quotation marks", got)
	}
}
