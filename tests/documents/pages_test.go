package documents

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The README is read in half a minute.
func TestReadmeIsShort(t *testing.T) {
	atRoot(t)
	text := read(t, "README.md")
	if lines := strings.Count(text, "\n"); lines > 160 || len(text) > 10_000 {
		t.Errorf("README.md has %d lines and %d bytes, want 160 and 10,000 at most: what is longer belongs in docs", lines, len(text))
	}
}

// Each page says at its beginning for whom it is, what it answers, and what is elsewhere, and the index by question leads to it.
func TestPagesAreFound(t *testing.T) {
	atRoot(t)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 15 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	index := read(t, "docs/README.md")
	head := regexp.MustCompile(`^# [^\n]+\n\n- For [^\n]+\n(?:  [^\n]+\n)*- It answers: [^\n]+\n(?:  [^\n]+\n)*- Elsewhere: `)
	for _, page := range pages {
		if page == "docs/proof.md" { // a record, which make proof writes
			continue
		}
		if !head.MatchString(read(t, page)) {
			t.Errorf("%s does not begin with three lines: - For …, - It answers: …, - Elsewhere: …", page)
		}
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "]("+name) {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}
