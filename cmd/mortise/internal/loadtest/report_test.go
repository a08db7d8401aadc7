package loadtest

import (
	"strings"
	"testing"
)

func TestFiguresAreReadable(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.034: "0.03", 1.26: "1.3", 12.4: "12", 314.2: "314", 21437: "21,400", 1234567: "1,230,000", 999.9: "1,000"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) = %q, want %q", v, got, want)
		}
	}
}

// The explanations depend on the results.
func TestMeaning(t *testing.T) {
	seen := Report{
		Held: Held{Locks: MaxHeld, Renewed: 100}, Between: Contended{Clients: 4, Gap: Spread{Half: 10}}, NoCost: "it is secret",
	}
	want := []string{
		"One command renews 100 locks. At leases of 30s, 100,000 held locks would cost this server about 100 commands a second.",
		"So 10 ms of work under one lock can be done 50 times a second at most,",
		"What a lock costs the server itself is not known: it is secret.",
	}
	for range 2 {
		text := strings.Join(seen.meaning(), "\n")
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s\ndoes not say %q", text, w)
			}
		}
		seen.Held = Held{Locks: 120, Renewed: 3}
		seen.Own.Commands, seen.Cost = 2, &Cost{Version: "7.4.1", Script: 10}
		want = []string{"only 120 locks could be held", "The server (7.4.1) spends 10 µs of processor time on a command", "at 50,000 locks a second one server"}
	}
}
