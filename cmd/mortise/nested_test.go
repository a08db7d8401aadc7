package main

import (
	"strings"
	"testing"

	"github.com/mortise-go/mortise/memredis"
)

// takers are the ways to hold the name X; Y is a second one.
var takers = []struct{ name, outer, inner string }{
	{"lock", "run X", "run -n X"},
	{"fair", "run X --fair", "run -n X --fair"},
	{"read", "run X --read", "run -n X --read"},
	{"write", "run X --write", "run -n X --write"},
	{"fence", "run X --fence", "run -n X --fence"},
	{"multi", "run X --multi Y", "run -n X --multi Y"},
	{"permit", "run X --sem --limit 3", "run -n X --sem"},
	{"permits", "run X --sem --limit 3 --permits 2", "run -n X --sem --permits 2"},
	{"lead", "elect X", "elect X"},
}

// nested has a row for each taker as the outer run, with an outcome for each as the inner one.
var nested = map[string]string{
	//        lock fair read write fence multi permit permits lead
	"lock":    "held held kind kind token rest kind kind kind",
	"fair":    "held held kind kind token rest kind kind kind",
	"read":    "kind kind held reads kind kind kind kind kind",
	"write":   "kind kind held held kind kind kind kind kind",
	"fence":   "held held kind kind held rest kind kind kind",
	"multi":   "held held kind kind token held kind kind kind",
	"permit":  "kind kind kind kind kind kind held few kind",
	"permits": "kind kind kind kind kind kind held held kind",
	"lead":    "kind kind kind kind kind kind kind kind held",
}

// outcomes are what an inner run does, and what it says.
var outcomes = map[string]struct {
	status int
	text   string
}{
	"held":  {0, "X is held by the run around this one"}, // it acquires nothing
	"rest":  {0, "got X"},                                // it acquires the other name
	"kind":  {64, "Something of another kind has this name in Redis"},
	"token": {64, "the run around this one has X without a fencing token"},
	"reads": {64, "the run around this one reads X"},
	"few":   {64, "the run around this one has 1 permit of X, and 2 are wanted inside it"},
}

// A run inside another one of the same name is under what the outer one holds if that is enough,
// acquires the rest, or is refused. It never waits for its own outer run.
func TestNestedPairs(t *testing.T) {
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	for _, outer := range takers {
		row := strings.Fields(nested[outer.name])
		for i, inner := range takers {
			t.Run(outer.name+" around "+inner.name, func(t *testing.T) {
				t.Parallel()
				name := outer.name + "-" + inner.name
				named := strings.NewReplacer("X", name, "Y", name+"-2")
				args := strings.Fields(named.Replace(outer.outer + " -- mortise " + inner.inner + " -v -- echo ran"))
				s := begin(t, server.Addr(), args...)
				want := outcomes[row[i]]
				s.wantStatus(t, want.status)
				text := s.out.text()
				if !strings.Contains(text, named.Replace(want.text)) {
					t.Errorf("it wrote %q, want %q", text, named.Replace(want.text))
				}
				if ran := strings.Contains(text, "ran\n"); ran != (want.status == 0) {
					t.Errorf("the command ran: %v", ran)
				}
				if row[i] == "held" && strings.Contains(text, "got ") {
					t.Errorf("it wrote %q, want that it acquires nothing", text)
				}
			})
		}
	}
}
