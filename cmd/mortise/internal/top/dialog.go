package top

import (
	"context"
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mortise-go/mortise"
)

// dialog asks the user before something is done to a lock. What it shows does not change any more: an answer
// is about what the user has read.
type dialog struct {
	asks   bool // the holders to release; otherwise it releases
	state  mortise.State
	holder mortise.Holder // that will lose it; when it asks, the first one
	lease  time.Duration
	others int // holders besides that one
	at     time.Time
}

// dialogue is the state of a lock, read for a dialog.
type dialogue struct {
	dialog
	owner string // that the user has seen; empty for any
	err   error
}

// done is what has become of an action.
type done struct {
	text string
	err  error
}

// chosenHold returns the lock and the owner that an action is about. Several holders have to be told apart first.
func (m *Model) chosenHold() (name, owner string, ok bool) {
	if m.top() == lockPage {
		o := &m.one
		switch {
		case o.state.Name == "":
			return "", "", false
		case o.holders() == 0:
			m.fail(cut(clean(o.name), 30) + " has no holder that could release it")
			return "", "", false
		case o.at >= o.holders() && o.holders() > 1:
			m.fail("Move to one of the holders first.")
			return "", "", false
		}
		h, _ := m.holder(&o.state, min(o.at, o.holders()-1))
		return o.name, h.Owner, true
	}
	l := m.locks.current()
	switch {
	case l == nil:
		return "", "", false
	case len(l.Holds) == 0:
		m.fail(cut(clean(l.Name), 30) + " has no holder that could release it")
		return "", "", false
	}
	return l.Name, l.Holds[0].Party.Owner, true
}

// beginRelease asks whether to release a lock, once its state is read. If several hold it, the user says in the
// closer look which one.
func (m *Model) beginRelease() {
	if m.top() == locksPage {
		if l := m.locks.current(); l != nil && (len(l.Holds) > 1 || len(l.Holds) == 1 && l.Holds[0].Kind == permitKind) {
			m.open(lockPage, l.Name)
			m.say("Move to the holder that shall lose it, and press u.")
			return
		}
	}
	name, owner, ok := m.chosenHold()
	if !ok {
		return
	}
	m.read(name, owner, false)
}

// beginAsk lets the user write why a lock shall be released.
func (m *Model) beginAsk() {
	name, _, ok := m.chosenHold()
	if !ok {
		return
	}
	m.read(name, "", true)
}

// read reads a lock for a dialog.
func (m *Model) read(name, owner string, asks bool) {
	client := m.looker.Client()
	m.do(func(ctx context.Context) tea.Msg {
		s, err := client.Inspect(ctx, name)
		return dialogue{dialog{asks: asks, state: s, at: time.Now()}, owner, err}
	})
}

// answer opens a dialog about the state that was read for it.
func (m *Model) answer(d dialogue) {
	n := len(d.state.Holders) + len(d.state.Permits)
	i := 0
	if d.owner != "" {
		for i = 0; i < n; i++ {
			if h, _ := m.holder(&d.state, i); h.Owner == d.owner {
				break
			}
		}
	}
	switch {
	case d.err != nil:
		m.fail("It cannot be read: " + m.options.reason(d.err, reasonColumns))
	case n == 0 && d.state.Locked:
		m.fail("Its holders cannot be listed.")
	case n == 0:
		m.say(cut(clean(d.state.Name), 30) + " is free by now")
	case i == n:
		h, _ := m.holder(&d.state, 0)
		m.fail("Its holder has just changed: now it is " + infoText(h.Client, h.Owner).text + ".")
	case d.asks && d.state.Kind == mortise.KindPermits:
		m.fail("The holders of permits cannot be asked.")
	default:
		d.holder, d.lease = m.holder(&d.state, i)
		d.others = n - 1
		m.dialog = &d.dialog
		m.input.SetValue("")
		if d.asks {
			m.input.Focus() // its command only blinks the cursor
		}
	}
}

// dialogKey takes the answer. To release, it must be y: anything else leaves the lock alone.
func (m *Model) dialogKey(msg tea.KeyPressMsg) tea.Cmd {
	d, key := m.dialog, msg.String()
	switch {
	case d.asks && key == "enter":
		m.closeDialog()
		m.ask(d, m.input.Value())
	case d.asks && key != "esc":
		return m.feed(msg)
	case d.asks:
		m.closeDialog()
		m.say("nobody was asked")
	case key == "y" || key == "Y":
		m.closeDialog()
		m.release(d)
	default:
		m.closeDialog()
		m.say("nothing was released")
	}
	return nil
}

func (m *Model) closeDialog() {
	m.dialog = nil
	m.input.Blur()
}

// release releases the lock of the holder that the dialog has shown, and of no other.
func (m *Model) release(d *dialog) {
	m.say("releasing…")
	act, client, last := m.options.Act, m.looker.Client(), m.last
	name, victim := clean(d.state.Name), infoText(d.holder.Client, d.holder.Owner).text
	m.do(func(ctx context.Context) tea.Msg {
		freed, err := act.Release(ctx, d.state, d.holder.Owner)
		switch {
		case err != nil:
			return done{err: fmt.Errorf("%s was not released: %s", cut(name, 30), m.options.reason(err, reasonColumns))}
		case freed:
			return done{text: fmt.Sprintf("released %s, which %s held", cut(name, 30), victim)}
		}
		now := "look again"
		if s, err := client.Inspect(ctx, d.state.Name); err == nil {
			now = last.nowHeld(&s)
		}
		return done{err: fmt.Errorf("%s was not released: its holder has changed; %s", cut(name, 30), now)}
	})
}

// nowHeld names the holder of a lock.
func (s *seen) nowHeld(state *mortise.State) string {
	if len(state.Holders) == 0 {
		return "nobody holds it now"
	}
	h := state.Holders[0]
	s.identify(&h)
	return "now held by " + infoText(h.Client, h.Owner).text
}

// ask asks the holders to release the lock.
func (m *Model) ask(d *dialog, reason string) {
	m.say("asking…")
	act, client, last, name := m.options.Act, m.looker.Client(), m.last, clean(d.state.Name)
	m.do(func(ctx context.Context) tea.Msg {
		s, err := client.Inspect(ctx, d.state.Name)
		if err != nil {
			return done{err: fmt.Errorf("nobody was asked: %s", m.options.reason(err, reasonColumns))}
		}
		if s.Locked && s.Unlisted == 0 && !slices.ContainsFunc(s.Holders, func(h mortise.Holder) bool { return h.Owner == d.holder.Owner }) {
			return done{err: fmt.Errorf("nobody was asked: its holder has changed; %s", last.nowHeld(&s))}
		}
		asked, err := act.Ask(ctx, d.state.Name, reason)
		if err != nil {
			return done{err: fmt.Errorf("%s: %s", wereAsked(asked), m.options.reason(err, reasonColumns))}
		}
		deaf := slices.IndexFunc(asked, func(h mortise.AskedHolder) bool { return !h.Asked })
		switch {
		case len(asked) == 0:
			return done{text: cut(name, 30) + " is free by now"}
		case deaf >= 0:
			h := asked[deaf].Holder
			return done{err: fmt.Errorf("cannot ask %s: it is Redisson's, hides its identity, or has held it for less than a quarter of a second; then ask again", infoText(h.Client, h.Owner).text)}
		}
		return done{text: fmt.Sprintf("asked %s to release %s", infoText(asked[0].Client, asked[0].Owner).text, cut(name, 30))}
	})
}

// wereAsked says how many of the holders were asked.
func wereAsked(holders []mortise.AskedHolder) string {
	n := 0
	for _, h := range holders {
		if h.Asked {
			n++
		}
	}
	if n == 0 {
		return "nobody was asked"
	}
	return fmt.Sprintf("%d of %d holders were asked", n, len(holders))
}

// done reports what has become of an action, and looks at it.
func (m *Model) done(d done) {
	if m.say(d.text); d.err != nil {
		m.fail(d.err.Error())
	}
	m.one.due = true
	m.looker.Now()
}
