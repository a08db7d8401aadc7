package mortiseprom

import (
	"strings"
	"sync"
)

// overflow is the value of a label for all that is too much.
const overflow = "other"

// longest is how many bytes the value of a label has at most.
const longest = 128

// values are those of a label. There are only so many of them.
type values struct {
	most int

	mu    sync.RWMutex // guards known
	known map[string]bool
}

// newValues returns those of a label that has at most that many, of which known are the first.
func newValues(most int, known ...string) *values {
	v := &values{most: most, known: make(map[string]bool)}
	for _, text := range known {
		v.known[text] = true
	}
	return v
}

// of returns the value for a text. It never changes: once a text has a value of its own, it keeps it, and
// once it has none, there is no room for it any more.
func (v *values) of(text string) string {
	if text == "" {
		return ""
	}
	if len(text) > longest {
		text = text[:longest]
	}
	text = strings.ToValidUTF8(text, "�") // what is not UTF-8 is no value of a label
	v.mu.RLock()
	known := v.known[text]
	v.mu.RUnlock()
	if known {
		return text
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known[text] && len(v.known) >= v.most {
		return overflow
	}
	v.known[strings.Clone(text)] = true
	return text
}
