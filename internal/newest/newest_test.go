package newest_test

import (
	"fmt"
	"testing"

	"github.com/mortise-go/mortise/internal/newest"
)

func TestTableRemembersTheHighest(t *testing.T) {
	var table newest.Table
	if n := table.Seen("a"); n != 0 {
		t.Errorf("of what was never seen: %d, want 0", n)
	}
	for _, n := range []int64{3, 5, 4} {
		table.Note("a", n)
	}
	if a, b := table.Seen("a"), table.Seen("b"); a != 5 || b != 0 {
		t.Errorf("seen %d and %d, want 5 and 0", a, b)
	}
}

// It remembers what is in use, and no more than its bound.
func TestTableIsBounded(t *testing.T) {
	var table newest.Table
	table.Note("used", 7)
	for i := range 5 * newest.Most {
		table.Note(fmt.Sprint(i), 1)
		if i%(newest.Most/2) == 0 {
			table.Note("used", 1)
		}
	}
	if n := table.Seen("used"); n != 7 {
		t.Errorf("what is in use was forgotten: %d, want 7", n)
	}
	remembered := 0
	for i := range 5 * newest.Most {
		if n := table.Seen(fmt.Sprint(i)); n != 0 {
			remembered++
			if i < 3*newest.Most {
				t.Fatalf("%d is remembered, of %d", i, 5*newest.Most)
			}
		} else if i >= 4*newest.Most+10 {
			t.Fatalf("%d was forgotten, of %d", i, 5*newest.Most)
		}
	}
	if remembered > 2*newest.Most {
		t.Errorf("%d are remembered, want %d at most", remembered, 2*newest.Most)
	}
}
