package top

import tea "charm.land/bubbletea/v2"

// MostColumns and MostLines bound the screen. A terminal can claim any size, and a screen of that size may need
// gigabytes.
const (
	MostColumns = 1000
	MostLines   = 500
)

// clamped bounds the size that a terminal claims to have, before anything is made for it.
func clamped(_ tea.Model, msg tea.Msg) tea.Msg {
	if size, ok := msg.(tea.WindowSizeMsg); ok {
		return tea.WindowSizeMsg{Width: min(size.Width, MostColumns), Height: min(size.Height, MostLines)}
	}
	return msg
}
