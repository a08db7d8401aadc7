package browser

import (
	_ "embed"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/mortise-go/mortise/internal/fleet"
)

//go:embed testdata/axe-4.14.1.min.js
var axe string

// query returns a page with parameters.
func query(page string, parameters ...string) string {
	q := make(url.Values)
	for i := 0; i < len(parameters); i += 2 {
		q.Set(parameters[i], parameters[i+1])
	}
	return page + "?" + q.Encode()
}

// addresses returns those of all pages of a lively site.
func (s *site) addresses(b *tab) map[string]string {
	b.t.Helper()
	b.open(s.url + "lock?name=deploy")
	b.await(has("held by api-7") + ` && document.querySelector('a.button') !== null`)
	release := eval[string](b, `document.querySelector('a.button').href`)
	client := eval[string](b, `document.querySelector('.answer a').href`)
	return map[string]string{
		"locks": s.url, "lock": s.url + "lock?name=deploy", "fair": s.url + "lock?name=outbox", "clients": s.url + "clients", "client": client,
		"semaphores": s.url + "semaphores", "events": s.url + "events", "health": s.url + "health", "release": release,
		"none": s.url + "?q=no-such-lock", "missing": s.url + "no/such/page",
	}
}

// Everybody can read all pages: axe finds nothing, in both colour schemes, on a phone and on a large screen.
func TestAccessible(t *testing.T) {
	s := newSite(t)
	s.lively(fleet.StuckDeploy, fleet.Deadlock, fleet.FairQueue)
	b := newTab(t, "status of 404", "Applying inline style") // axe tries to
	pages := s.addresses(b)
	b.open(pages["health"])
	b.await(has("As mortise doctor found it"))
	for name, address := range pages {
		b.open(address)
		b.await(`document.querySelector('main h1') !== null`)
		eval[bool](b, axe+"; document.querySelectorAll('details').forEach((e) => { e.open = true }); true")
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{360, 1440} {
				b.media(scheme, width)
				found := eval[string](b, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => v.id + ': ' + v.help + ': ' + v.nodes.map((n) => n.html + ' ' + n.failureSummary).join('; ')).join('\n'))`)
				if found != "" {
					t.Errorf("%s, %s, %d px: %s", name, scheme, width, found)
				}
				if wide := eval[int](b, `document.documentElement.scrollWidth`); int64(wide) > width {
					t.Errorf("%s is %d px wide on a screen of %d", name, wide, width)
				}
			}
		}
	}
}

// The keyboard leads everywhere, and shows where it is.
func TestKeyboard(t *testing.T) {
	s := newSite(t)
	s.hold(s.client("api-7", "deploy"), "deploy")
	b := newTab(t)
	b.open(s.url)
	b.await(has("deploy"))
	b.await(`document.getElementById('state').textContent === 'Live'`)
	b.do(chromedp.KeyEvent("\t"))
	if got := eval[string](b, `document.activeElement.textContent`); got != "Skip to the content" {
		t.Errorf("the first stop is %q", got)
	}
	b.do(chromedp.KeyEvent("\r"))
	b.await(`document.activeElement.id === 'main'`)
	var stops []string
	for range 6 {
		b.do(chromedp.KeyEvent("\t"))
		stops = append(stops, eval[string](b, `(document.activeElement.name || document.activeElement.textContent) + (getComputedStyle(document.activeElement).outlineStyle === 'none' ? ' without an outline' : '')`))
	}
	if got := strings.Join(stops, ", "); !strings.HasPrefix(got, "q, kind, sort, only, deploy, api-7 pid ") || strings.Contains(got, "without") {
		t.Errorf("the stops are %s", got)
	}
}

// Without scripts each page is complete, and loads itself again.
func TestWithoutScripts(t *testing.T) {
	s := newSite(t)
	s.lively(fleet.StuckDeploy, fleet.FairQueue)
	b := newTab(t, "status of 404")
	pages := s.addresses(b)
	b.scripts(false)
	for name, text := range map[string]string{
		"locks": "store-1", "lock": "Its holder waits, too", "clients": "api-7", "client": "In its way", "semaphores": "gpu", "events": "deploy", "health": "commands a second",
		"release": "First: ask", "none": "matches", "missing": "no such page",
	} {
		b.open(pages[name])
		if got := b.text(); !strings.Contains(got, text) {
			t.Errorf("%s does not say %q: %s", name, text, got)
		}
	}
	b.open(pages["locks"])
	s.hold(s.client("new-1", "new"), "brand-new")
	b.poll(func() bool { return strings.Contains(b.text(), "brand-new") }, // it loads itself every five seconds
		func() string { return "the page does not load itself again: " + b.text() })
}

// text returns the text of a page without its scripts.
func (b *tab) text() (text string) {
	b.t.Helper()
	var err error
	b.poll(func() bool { // it fails while the page loads itself again
		text, err = chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("body")))
		return err == nil
	}, func() string { return err.Error() })
	return text
}

// broken lists the words in the cells of tables that are torn apart although they are short, and long ones of which a line has
// fewer than four letters. A short name may end a line at a sign that joins its parts; what is quoted, because it is odd, may do so
// anywhere.
const broken = `(() => {
	const found = new Set()
	for (const cell of document.querySelectorAll('th, td')) {
		if (getComputedStyle(cell.closest('thead, tbody')).position === 'absolute') continue // not on the screen
		const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT)
		for (let node; node = texts.nextNode();) {
			for (const word of node.data.matchAll(/[^\s\u200b]+/g)) {
				const range = document.createRange()
				range.setStart(node, word.index)
				range.setEnd(node, word.index + word[0].length)
				const lines = new Map()
				for (const r of range.getClientRects()) lines.set(Math.round(r.top), (lines.get(Math.round(r.top)) || 0) + r.width)
				const widths = [...lines.values()]
				if (widths.length < 2 || /["<>\\]/.test(word[0])) continue
				const letter = widths.reduce((a, b) => a + b, 0) / word[0].length
				let torn = Math.min(...widths.slice(0, -1)) < 3.5 * letter
				for (let i = 1; word[0].length <= 12 && i < word[0].length; i++) {
					const at = (i) => {
						range.setStart(node, word.index + i)
						range.setEnd(node, word.index + i + 1)
						return Math.round(range.getBoundingClientRect().top)
					}
					torn ||= at(i) !== at(i - 1) && !/[-\/.:,@]/.test(word[0].slice(i - 1, i + 1))
				}
				if (torn)
					found.add(word[0] + ' on ' + widths.length + ' lines in ' + cell.closest('table').className)
			}
		}
	}
	return [...found].join('; ')
})()`

// On no screen is a word of a table torn apart, or written letter by letter.
func TestWordsStayWhole(t *testing.T) {
	s := newSite(t)
	s.lively(fleet.StuckDeploy, fleet.Deadlock, fleet.FairQueue, fleet.Permits)
	s.hold(s.client("ip-10-0-112-34.eu-west-1.compute.internal", "nightly-reconciliation"), "a-lock-with-a-name-that-is-rather-long:4711")
	b := newTab(t, "status of 404")
	for name, address := range s.addresses(b) {
		b.open(address)
		b.await(`document.querySelector('main h1') !== null`)
		eval[bool](b, `document.querySelectorAll('details').forEach((e) => { e.open = true }); true`)
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{320, 360, 390, 768, 1440} {
				b.media(scheme, width)
				if found := eval[string](b, broken); found != "" {
					t.Errorf("%s, %s, %d px: %s", name, scheme, width, found)
				}
				if wide := eval[int](b, `document.documentElement.scrollWidth`); int64(wide) > width {
					t.Errorf("%s is %d px wide on a screen of %d", name, wide, width)
				}
			}
		}
	}
}
