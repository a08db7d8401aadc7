package browser

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/fleet"
)

// The walk-through of docs/operations.md leads from the first page to the process that blocks the deploy, and on: each
// step clicks on what it says, and the page then says what stands there.
func TestWalkThrough(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## From the screen alone\n")
	if !ok {
		t.Fatal("there is no walk-through")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	steps := regexp.MustCompile(`(?ms)^\d\. (.*?)(?:\n\d\. |\n\n)`)
	section = regexp.MustCompile(`(?m)^(\d\. )`).ReplaceAllString(section, "\n$1")
	found := steps.FindAllStringSubmatch(section, -1)
	if len(found) != 6 {
		t.Fatalf("it has %d steps, want 6: is it read right?", len(found))
	}
	s := newSite(t)
	s.lively(fleet.StuckDeploy)
	b := newTab(t)
	b.open(s.url)
	for i, step := range found {
		quoted := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(step[1], -1)
		if strings.HasPrefix(step[1], "Click ") {
			b.click(quoted[0][1])
			quoted = quoted[1:]
		}
		t.Logf("step %d: %q", i+1, quoted)
		for _, q := range quoted {
			if last := i == len(found)-1; last {
				b.await(`document.querySelector('h1').textContent === 'Locks' && document.getElementById('state').textContent === 'Live' && !` + has(q[1]))
				continue
			}
			b.await(has(q[1]))
		}
	}
}

// click clicks on what has a text, wherever it is by then: a page may change in the same moment.
func (b *tab) click(text string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll('main a, main button, nav a')].find((e) => e.textContent === %q && e.checkVisibility());
		if (e) e.click();
		return !!e;
	})()`, text))
}
