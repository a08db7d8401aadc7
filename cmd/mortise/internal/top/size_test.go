package top

import (
	"testing"

	tea "charm.land/bubbletea/v2"
)

// No claim of a terminal makes the screen large.
func TestSizeIsBounded(t *testing.T) {
	for claim, want := range map[tea.WindowSizeMsg]tea.WindowSizeMsg{
		{Width: 80, Height: 24}:       {Width: 80, Height: 24},
		{Width: 65535, Height: 65535}: {Width: MostColumns, Height: MostLines},
		{Width: 65535, Height: 24}:    {Width: MostColumns, Height: 24},
	} {
		if got := clamped(nil, claim); got != want {
			t.Errorf("%+v becomes %+v, want %+v", claim, got, want)
		}
	}
}
