//go:build unix

package guard

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseSignal(t *testing.T) {
	for name, want := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "sigusr1": syscall.SIGUSR1, "9": syscall.SIGKILL, "0": 0, "65": 0, "-1": 0, "": 0, "NOTHING": 0} {
		got, ok := ParseSignal(name)
		if ok != (want != 0) || ok && got != want {
			t.Errorf("ParseSignal(%q) = %v, %v, want %v", name, got, ok, want)
		}
	}
	if got := SignalName(syscall.SIGTERM); got != "SIGTERM" {
		t.Errorf("SignalName(SIGTERM) = %s", got)
	}
	if got := SignalName(63); !strings.Contains(got, "63") {
		t.Errorf("SignalName(63) = %s, want the number", got)
	}
}

func TestTerminates(t *testing.T) {
	for s, want := range map[os.Signal]bool{
		syscall.SIGINT: true, syscall.SIGTERM: true, syscall.SIGHUP: true, syscall.SIGQUIT: true,
		syscall.SIGUSR1: false, syscall.SIGCONT: false, syscall.SIGWINCH: false,
	} {
		if got := Terminates(s); got != want {
			t.Errorf("Terminates(%v) = %v, want %v", s, got, want)
		}
	}
}

// A time has passed when either clock says so.
func TestPassed(t *testing.T) {
	now := time.Now()
	for what, test := range map[string]struct {
		at   time.Time
		want bool
	}{"now": {now, true}, "before": {now.Add(-time.Hour), true}, "later": {now.Add(time.Hour), false}, "later by the wall clock": {now.Round(0).Add(time.Hour), false}} {
		if got := passed(test.at); got != test.want {
			t.Errorf("%s: %v, want %v", what, got, test.want)
		}
	}
}
