package top

import (
	"charm.land/lipgloss/v2"
)

// styles are the few ways in which text stands out. There is one accent, for what can be done and where the cursor
// is; red is only for what is wrong, which a word or a sign tells as well.
type styles struct {
	plain, bold, faint, accent, alarm, heading lipgloss.Style
}

// newStyles returns the styles for a dark or a light background. Bubble Tea reduces the colours to those of the
// terminal, and leaves them out if NO_COLOR says so.
func newStyles(dark bool) styles {
	accent, alarm := lipgloss.Color("#0969da"), lipgloss.Color("#cf222e")
	if dark {
		accent, alarm = lipgloss.Color("#58a6ff"), lipgloss.Color("#ff7b72")
	}
	s := lipgloss.NewStyle()
	return styles{
		plain: s, bold: s.Bold(true), faint: s.Faint(true), heading: s.Faint(true),
		accent: s.Bold(true).Foreground(accent), alarm: s.Bold(true).Foreground(alarm),
	}
}
