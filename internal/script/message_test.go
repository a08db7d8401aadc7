package script_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// The results of parsing messages, including those that mortise never sends.
func TestMessages(t *testing.T) {
	for message, want := range map[string]script.ReleaseMessage{
		"0": {}, "1": {}, "": {}, "text": {},
		"00":     {Ours: true},
		"000":    {Ours: true, Left: true, Times: 1},
		"001":    {Ours: true, Left: true, Times: 1},
		"0000":   {Ours: true},
		"00000":  {Ours: true, Left: true, Times: 2},
		"000000": {Ours: true, Left: true, Times: 3},
		"17":     {},
		"100":    {},
		"0017":   {Ours: true, Left: true, Times: 1},
		"00100":  {Ours: true, Left: true, Times: 1},
		"00017":  {Ours: true},
		"000017": {Ours: true, Left: true, Times: 2},
		"00x":    {Ours: true, Left: true, Times: 1},
	} {
		if got := script.ParseRelease(message); got != want {
			t.Errorf("the release message %q says %+v, want %+v", message, got, want)
		}
	}
	for message, want := range map[string]script.TurnMessage{
		"": {}, "0": {}, "anything": {},
		"~":                   {Left: true, Times: 1},
		"~2":                  {Left: true, Times: 2},
		"~x":                  {Left: true, Times: 1},
		"~-1":                 {Left: true, Times: 1},
		"~1000":               {Left: true, Times: 1},
		"client:17 3":         {Granted: "client:17", Row: 3},
		"client:17 ":          {Granted: "client:17"},
		"client:17 -x":        {Granted: "client:17"},
		" 1":                  {Row: 1},
		"client:1 2 3 40":     {Granted: "client:1", Row: 2, Shared: true, Vain: 3, KeepFor: 40 * time.Millisecond},
		"client:1 2 0 0":      {Granted: "client:1", Row: 2, Shared: true},
		"client:1 2 -3 -40":   {Granted: "client:1", Row: 2, Shared: true},
		"client:1 2 99 999":   {Granted: "client:1", Row: 2, Shared: true, Vain: 99, KeepFor: 999 * time.Millisecond},
		"client:1 2 100 1000": {Granted: "client:1", Row: 2, Shared: true, Vain: 100, KeepFor: time.Second},
		"client:1 2 101 1001": {Granted: "client:1", Row: 2, Shared: true, Vain: 100, KeepFor: time.Second},
		"client:1 2 3":        {Granted: "client:1", Row: 2},
		"~ 3 40":              {Left: true, Times: 1, Shared: true, Vain: 3, KeepFor: 40 * time.Millisecond},
		"~2 3 40":             {Left: true, Times: 2, Shared: true, Vain: 3, KeepFor: 40 * time.Millisecond},
		"~ 3 40 5":            {Left: true, Times: 1},
	} {
		if got := script.ParseTurn(message); got != want {
			t.Errorf("the turn message %q says %+v, want %+v", message, got, want)
		}
	}
	for message, want := range map[string]script.FairMessage{
		"":                {},
		"?client:1":       {Waiter: "client:1", Look: true},
		"client:1 NONCE":  {Waiter: "client:1", Nonce: "NONCE"},
		"client:1":        {Waiter: "client:1"},
		"client:1 A B":    {Waiter: "client:1", Nonce: "A B"},
		"?client:1 NONCE": {Waiter: "client:1 NONCE", Look: true},
	} {
		if got := script.ParseFair(message); got != want {
			t.Errorf("the fair message %q says %+v, want %+v", message, got, want)
		}
	}
}

// A client's UUID is told from Redisson's by its version.
func TestClientIDsAreTold(t *testing.T) {
	if id := script.NewClientID(); len(id) != 36 || !script.IsMortise(id+":1") || id == script.NewClientID() {
		t.Errorf("the id %q is not that of a mortise client, or not random", id)
	}
	for _, owner := range []string{"", "short", "285475da-9152-4c83-822a-67ee2f116a79:52"} {
		if script.IsMortise(owner) {
			t.Errorf("%q is taken for a mortise client", owner)
		}
	}
}
