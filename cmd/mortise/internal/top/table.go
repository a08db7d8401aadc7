package top

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// column is a column of a table. Its place depends on the width of the screen only, and in the table of locks on the
// longest name so far, so that nothing moves when what it shows changes.
type column struct {
	title string
	width int  // 0: a share of what the others leave
	share int  // how many shares; 0: one
	right bool // numbers
	from  int  // it is left out on screens with fewer columns
	sort  order
}

// cell is the text of a cell, which needs no escapes any more.
type cell struct {
	text   string
	brief  string // in place of a text that is too long; none if it is empty
	style  lipgloss.Style
	middle bool // of a text that is too long, the end is shown as well
}

// mark is what a row begins with.
type mark struct {
	chosen bool // the cursor is in it
	alarm  bool // something is wrong with it
}

const (
	indent = 3 // for the mark of the row that the cursor is in
	gap    = 2 // between two columns
	margin = 1 // at the right
)

// layout returns the columns that a screen has, with their widths.
func layout(columns []column, screen int) []column {
	var list []column
	left, shares := screen-indent-margin, 0
	for _, c := range columns {
		if c.from > screen {
			continue
		}
		list = append(list, c)
		if left -= c.width + gap; c.width == 0 {
			shares += max(1, c.share)
		}
	}
	left += gap
	for i := range list {
		if of := max(1, list[i].share); list[i].width == 0 {
			list[i].width = left * of / shares
			left -= list[i].width
			shares -= of
		}
	}
	return list
}

// line returns a row. Cells are those of columns, in that order, also of those that the screen leaves out.
func (s *styles) line(columns []column, screen int, cells []cell, mark mark) string {
	var b strings.Builder
	if mark.alarm {
		b.WriteString(s.alarm.Render("!"))
	} else {
		b.WriteString(" ")
	}
	if mark.chosen {
		b.WriteString(s.accent.Render("▸ "))
	} else {
		b.WriteString("  ")
	}
	shown, at := layout(columns, screen), 0
	for i, c := range columns {
		if c.from > screen {
			continue
		}
		if at > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		text, style := cells[i].text, cells[i].style
		if cells[i].brief != "" && ansi.StringWidthWc(text) > shown[at].width {
			text = cells[i].brief
		}
		if cells[i].middle {
			text = cutMiddle(text, shown[at].width)
		}
		if mark.chosen {
			style = style.Bold(true)
		}
		if shown[at].right {
			b.WriteString(style.Render(right(text, shown[at].width)))
		} else {
			b.WriteString(style.Render(left(text, shown[at].width)))
		}
		at++
	}
	return b.String()
}

// headings returns the titles of columns; that of the order of the rows has a mark.
func (s *styles) headings(columns []column, screen int, by order) string {
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", indent))
	for i, c := range layout(columns, screen) {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		title, style := c.title, s.heading
		sorted := by != "" && c.sort == by
		if sorted {
			style = s.accent
		}
		switch {
		case sorted && c.right:
			b.WriteString(style.Render(right("▾"+title, c.width)))
		case sorted:
			b.WriteString(style.Render(left(title+"▾", c.width)))
		case c.right:
			b.WriteString(style.Render(right(title, c.width)))
		default:
			b.WriteString(style.Render(left(title, c.width)))
		}
	}
	return b.String()
}

// cursor is where the user is in a list.
type cursor struct {
	at     int // the row
	offset int // of the first row on the screen
	moved  bool
}

// move moves the cursor by n rows.
func (c *cursor) move(n int) { c.at, c.moved = c.at+n, true }

// fit puts the cursor, and the rows on the screen, into a list of n rows of which height are on the screen.
func (c *cursor) fit(n, height int) {
	c.at = max(0, min(c.at, n-1))
	c.offset = max(0, min(c.offset, n-height))
	c.offset = min(c.offset, c.at)
	c.offset = max(c.offset, c.at-height+1)
}

// key moves the cursor if the key is one of those that do.
func (c *cursor) key(key string, height int) bool {
	switch key {
	case "up", "k":
		c.move(-1)
	case "down", "j":
		c.move(1)
	case "pgup", "ctrl+b":
		c.move(-height)
	case "pgdown", "ctrl+f", "space":
		c.move(height)
	case "home", "g":
		c.at, c.offset, c.moved = 0, 0, false
	case "end", "G":
		c.at, c.moved = 1<<30, true
	default:
		return false
	}
	return true
}
