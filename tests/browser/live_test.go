package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/mortise-go/mortise"
)

// A page changes while somebody types: the text and the focus stay, and the search is that of the text.
func TestLiveWhileTyping(t *testing.T) {
	s := newSite(t)
	c := s.client("api-7", "api")
	s.hold(c, "deploy:1")
	s.hold(c, "billing")
	b := newTab(t)
	b.open(s.url)
	b.await(`document.getElementById('state').textContent === 'Live'`)
	b.await(has("billing"))
	const box = `document.querySelector('input[name=q]')`
	b.do(chromedp.Click(chromedp.CSS("input[name=q]")), chromedp.KeyEvent("dep"))
	b.await(`!` + has("billing"))
	if got := eval[string](b, `location.search`); got != "?q=dep" {
		t.Errorf("the URL has %q", got)
	}
	eval[bool](b, box+`.setSelectionRange(1, 2), window.mark = document.querySelector('tbody tr'), true`)
	s.hold(c, "deploy:2")
	s.hold(c, "other")
	b.await(has("deploy:2"))
	if got := eval[string](b, `[document.activeElement === `+box+`, `+box+`.value, `+box+`.selectionStart, `+box+`.selectionEnd, window.mark.isConnected].join(' ')`); got != "true dep 1 2 true" {
		t.Errorf("after a change, the focus, the text, the selection, the row that was there: %s", got)
	}
	b.do(chromedp.KeyEvent("x"))
	b.await(has("None of the 4 locks matches"))
	b.open(eval[string](b, `location.href`))
	b.await(box + `.value === 'dxp'`) // what was selected is replaced
}

// What is opened stays open, and what is paused stays as it is.
func TestPause(t *testing.T) {
	s := newSite(t)
	c := s.client("api-7", "deploy")
	hold, _ := s.hold(c, "deploy")
	b := newTab(t)
	b.open(s.url + "lock?name=deploy")
	b.await(has("api-7"))
	b.await(`document.getElementById('state').textContent === 'Live'`)
	b.do(chromedp.Click(chromedp.CSS("summary")))
	b.await(has("redis-cli HGETALL deploy"))
	s.wait(t.Context(), s.client("api-8", "deploy"), "deploy")
	b.await(has("api-8"))
	if !eval[bool](b, `document.getElementById('raw').open`) {
		t.Error("a change has closed what was opened")
	}
	b.do(chromedp.Click(chromedp.ID("toggle")))
	b.await(`document.getElementById('state').textContent === 'Paused' && location.search.includes('paused=1')`)
	before := eval[string](b, `document.getElementById('live').textContent`)
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	other := newTab(t)
	other.open(s.url + "lock?name=deploy")
	other.await(has("held by api-8"))
	if got := eval[string](b, `document.getElementById('live').textContent`); got != before {
		t.Errorf("a paused page has changed to %s", got)
	}
	b.do(chromedp.Click(chromedp.ID("toggle")))
	b.await(has("held by api-8"))
}

// Times go on between changes, and nothing moves meanwhile.
func TestNothingJumps(t *testing.T) {
	s := newSite(t)
	c := s.client("api-7", "deploy")
	s.hold(c, "deploy")
	s.wait(t.Context(), s.client("api-8", "deploy"), "deploy")
	b := newTab(t)
	b.open(s.url)
	b.await(has("api-8"))
	b.await(`document.getElementById('state').textContent === 'Live' && document.querySelector('[data-until]') !== null`)
	b.await(`!` + has("so far")) // the end of the first search is a change
	eval[bool](b, `window.shift = 0, new PerformanceObserver((l) => { for (const e of l.getEntries()) if (!e.hadRecentInput) window.shift += e.value }).observe({ type: 'layout-shift' }), true`)
	eval[bool](b, `window.first = [...document.querySelectorAll('[data-since], [data-until]')].map((e) => e.textContent).join(), true`)
	b.await(`[...document.querySelectorAll('[data-since], [data-until]')].map((e) => e.textContent).join() !== window.first`)
	b.await(`/^[1-9][0-9]s$/.test(document.querySelector('td [data-since]').textContent)`) // from one digit to two
	if got := eval[float64](b, `window.shift`); got > 0.001 {
		t.Errorf("the page has moved by %g", got)
	}
}

// Neither those in the way nor a deadlock that come and go move the rows back and forth.
func TestNothingMovesUpAgain(t *testing.T) {
	s := newSite(t)
	c, d := s.client("left", "deploy"), s.client("right", "deploy")
	_, underC := s.hold(c, "c")
	_, underD := s.hold(d, "d")
	b := newTab(t)
	b.open(s.url)
	b.await(has("right") + ` && document.getElementById('state').textContent === 'Live'`)
	place := func() float64 {
		return eval[float64](b, `window.dispatchEvent(new PointerEvent('pointermove')), document.querySelector('form').getBoundingClientRect().top`)
	}
	first := place()
	waiting, end := context.WithCancel(underC)
	s.wait(waiting, c, "d")
	b.await(has("In the way"))
	withTree := place()
	if withTree <= first {
		t.Fatalf("those in the way do not move the form from %g: %g", first, withTree)
	}
	crossing, uncross := context.WithCancel(underD)
	s.wait(crossing, d, "c")
	b.await(has("Deadlock"))
	withAlert := place()
	if withAlert <= withTree {
		t.Fatalf("a deadlock does not move the form from %g: %g", withTree, withAlert)
	}
	uncross()
	b.await(`!` + has("Deadlock"))
	if got := place(); got < withAlert-0.5 {
		t.Errorf("the end of a deadlock moves the form from %g to %g", withAlert, got)
	}
	end()
	b.await(`!` + has("In the way"))
	if got := place(); got < withAlert-0.5 {
		t.Errorf("the end of the waits moves the form from %g to %g", withAlert, got)
	}
	b.await(fmt.Sprintf(`document.querySelector('form').getBoundingClientRect().top < %g`, withAlert-50)) // the pointer rests
	if got := eval[float64](b, `document.querySelector('form').getBoundingClientRect().top`); got < withTree-0.5 {
		t.Errorf("without a deadlock the form moves from %g to %g", withTree, got)
	}
}

// A holder is asked from its page; the question is not changed while it is open, and a release by force is refused
// when the lock has another holder.
func TestRelease(t *testing.T) {
	s := newSite(t)
	hold, under := s.hold(s.client("api-7", "deploy"), "deploy")
	b := newTab(t, "status of 409")
	b.open(s.url + "lock?name=deploy")
	b.await(has("held by api-7"))
	b.await(`document.querySelector('a.button') !== null`)
	b.do(chromedp.Click(chromedp.CSS("td a.button")))
	b.await(has("Release deploy?") + ` && location.pathname.endsWith('/release')`)
	question := eval[string](b, `document.querySelector('main').innerHTML`)
	s.wait(t.Context(), s.client("api-8", "deploy"), "deploy")
	other := newTab(t)
	other.open(s.url + "lock?name=deploy")
	other.await(has("api-8"))
	if eval[string](b, `document.querySelector('main').innerHTML`) != question {
		t.Error("an open question has changed")
	}
	b.do(chromedp.Focus(chromedp.CSS("input[name=reason]")), chromedp.KeyEvent("hotfix 4711"), chromedp.Click(chromedp.CSS("button.primary")))
	b.await(has("The holder was asked to release the lock."))
	<-under.Done()
	if err := context.Cause(under); !errors.Is(err, mortise.ErrRevoked) || !strings.Contains(err.Error(), "hotfix 4711") {
		t.Errorf("the hold that was asked for has ended with %v", err)
	}
	b.await(`document.querySelector('a.button') !== null`)
	b.do(chromedp.Click(chromedp.CSS("td a.button")))
	b.await(has("Release deploy?"))
	b.do(chromedp.Click(chromedp.CSS("button.danger"))) // without the tick the form is not sent
	if got := eval[string](b, `location.pathname + document.querySelector('input[type=checkbox]').validity.valueMissing`); !strings.HasSuffix(got, "/releasetrue") {
		t.Errorf("a release without a tick leads to %s", got)
	}
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	other.await(has("held by api-8"))
	b.tick()
	b.click("Release it by force")
	b.await(has("Nothing was released") + " && " + has("It is held by api-8"))
	b.do(chromedp.Click(chromedp.CSS("a.button")))
	b.await(has("api-8") + " && document.querySelector('button.danger') !== null")
	b.tick()
	b.click("Release it by force")
	b.await(has("The lock was released by force.") + " && " + has("Nobody holds it."))
}

// tick ticks the box of a question. What the browser says about a missing tick may lie over it.
func (b *tab) tick() {
	b.t.Helper()
	b.await(`(() => {
		const box = document.querySelector('input[type=checkbox]');
		if (!box.checked) box.click();
		return box.checked;
	})()`)
}
