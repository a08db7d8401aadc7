//go:build interop

package interop

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// claim is one thing that holds between mortise and Redisson.
type claim struct {
	object    string // such as "Lock"
	says      string
	direction string // which side acts on which, such as "Go -> Java"
}

// ledger collects what the tests of this run proved, for the table at the end.
type ledger struct {
	mu      sync.Mutex
	claims  []claim                     // in the order of first mention; guarded by mu
	worlds  []string                    // in the order of first mention; guarded by mu
	results map[claim]map[string]string // by claim and world; guarded by mu
	lacking map[string]string           // by test, the release that it needs; guarded by mu
}

var proofs = ledger{results: make(map[claim]map[string]string), lacking: make(map[string]string)}

// note records that c was tried in the named world and what came of it.
func (l *ledger) note(c claim, world string, held bool) {
	l.put(c, world, map[bool]string{true: "proved", false: "FAILED"}[held])
}

// noteAbsent records that c cannot be tried in the named world, because it is
// about what came with a later release.
func (l *ledger) noteAbsent(c claim, world, release string) { l.put(c, world, "- since "+release) }

// lack records that the named test is about what came with that release.
func (l *ledger) lack(test, release string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lacking[test] = release
}

// lacks returns the release that the named test was recorded to need, or "".
func (l *ledger) lacks(test string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lacking[test]
}

func (l *ledger) put(c claim, world, result string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.results[c] == nil {
		l.results[c] = make(map[string]string)
		l.claims = append(l.claims, c)
	}
	if !slices.Contains(l.worlds, world) {
		l.worlds = append(l.worlds, world)
	}
	l.results[c][world] = result
}

// table returns claim by world; a dash alone is what was not tried.
func (l *ledger) table() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.claims) == 0 {
		return ""
	}
	slices.SortStableFunc(l.claims, func(a, b claim) int { return strings.Compare(a.object, b.object) })
	slices.Sort(l.worlds)
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "object\tclaim\tdirection\t"+strings.Join(l.worlds, "\t"))
	for _, c := range l.claims {
		cells := []string{c.object, c.says, c.direction}
		for _, world := range l.worlds {
			result := l.results[c][world]
			if result == "" {
				result = "-"
			}
			cells = append(cells, result)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // to a strings.Builder, which does not fail
	return "\n" + out.String()
}
