package dice_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
)

func throws() (got []time.Duration) {
	for range 20 {
		got = append(got, dice.N(time.Hour))
	}
	return got
}

func TestFixRepeats(t *testing.T) {
	undo := dice.Fix(1)
	first := throws()
	dice.Fix(1)
	again := throws()
	dice.Fix(2)
	other := throws()
	undo()
	if !slices.Equal(first, again) {
		t.Errorf("one seed gave %v, and then %v", first, again)
	}
	if free := throws(); slices.Equal(first, other) || slices.Equal(first, free) || slices.Equal(other, free) {
		t.Errorf("another seed gave %v, and none %v, want both to differ from %v", other, free, first)
	}
	for _, d := range first {
		if d < 0 || d >= time.Hour {
			t.Errorf("it drew %v of an hour", d)
		}
	}
}
