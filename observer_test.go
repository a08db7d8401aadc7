package mortise_test

import (
	"testing"

	"github.com/mortise-go/mortise"
)

// linker is an observer that knows a text.
type linker string

func (linker) Observe(mortise.Event) {}
func (l linker) Link(uint64) string  { return string(l) }

func TestObservers(t *testing.T) {
	var seen []int
	note := func(n int) mortise.Observer {
		return mortise.ObserverFunc(func(mortise.Event) { seen = append(seen, n) })
	}
	both := mortise.Observers(note(1), note(2))
	both.Observe(mortise.Event{})
	if len(seen) != 2 || seen[0] != 1 || seen[1] != 2 {
		t.Errorf("the event came to %v, want 1 and 2", seen)
	}
	if _, ok := both.(mortise.Linker); ok {
		t.Error("they are a Linker, and none of them is")
	}
	linked, ok := mortise.Observers(note(3), linker(""), linker("trace"), linker("other")).(mortise.Linker)
	if !ok {
		t.Fatal("they are no Linker, and one of them is")
	}
	if text := linked.Link(1); text != "trace" {
		t.Errorf("the text is %q, want that of the first that has one", text)
	}
	if linked.Observe(mortise.Event{}); len(seen) != 3 {
		t.Errorf("the event came to %v, want to the third, too", seen)
	}
}
