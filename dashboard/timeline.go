package dashboard

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/watch"
)

const (
	// wide is the width of a timeline in its own units, mostLanes how many processes it shows, and leastBar how wide
	// the shortest bar is.
	wide, mostLanes, leastBar = 1000, 10, 4
)

// windows are how far back a timeline looks: the first one that shows all that is known, or the last one.
var windows = []time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

// timeline shows when each process waited for a lock, and when it held the lock.
type timeline struct {
	Lanes      []lane
	More       int // processes that are not shown
	Window     string
	Begin, End string
}

// lane is a process, with all its bars: it may have several permits at once.
type lane struct {
	Who  who
	Bars template.HTML
}

// timelineOf returns a timeline of spells, the newest first; nil if there are none. It moves in steps, so that it stays
// the same for a while.
func (p *pen) timelineOf(spells []spell) *timeline {
	if len(spells) == 0 {
		return nil
	}
	span := time.Minute
	for _, s := range spells {
		back := p.now.Sub(s.began(p.now))
		for _, w := range windows {
			if span = max(span, w); w >= back {
				break
			}
		}
		if span > time.Hour && len(spells) > 10 {
			break // rather the last ones, and larger
		}
	}
	step := max(time.Second, span/120)
	end := p.now.Truncate(step).Add(step)
	t := &timeline{Window: "The last " + windowText(span), Begin: p.Clock(end.Add(-span)), End: p.Clock(end)}
	lanes := make(map[string]int)
	var bars []*strings.Builder
	for _, s := range spells {
		key := p.process(&s.party)
		i, ok := lanes[key]
		switch {
		case !ok && len(t.Lanes) == mostLanes:
			t.More++
			lanes[key] = -1
			continue
		case ok && i < 0:
			continue
		case !ok:
			i = len(t.Lanes)
			lanes[key] = i
			t.Lanes = append(t.Lanes, lane{Who: p.Who(&s.party)})
			bars = append(bars, new(strings.Builder))
		}
		s.draw(bars[i], end, span, p.now)
	}
	for i := range t.Lanes {
		t.Lanes[i].Bars = template.HTML(bars[i].String()) // numbers only
	}
	return t
}

// process returns what tells the process of a party from others: permits have owners that name no client.
func (p *pen) process(party *watch.Party) string {
	if party = p.scene.named(party); party.Named() && !party.Kept() {
		return party.Host + "\x00" + strconv.Itoa(party.PID) + "\x00" + party.App
	}
	return clientOf(party)
}

// windowText writes a window.
func windowText(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return counted(int(d.Hours()/24), "day")
	case d > time.Hour:
		return counted(int(d.Hours()), "hour")
	case d == time.Hour:
		return "hour"
	case d == time.Minute:
		return "minute"
	}
	return counted(int(d.Minutes()), "minute")
}

// began returns when the wait of a spell began.
func (s *spell) began(now time.Time) time.Time {
	end := s.ended
	if end.IsZero() {
		end = now
	}
	return end.Add(-max(0, s.held)).Add(-max(0, s.waited))
}

// draw draws the bars of a spell.
func (s *spell) draw(to *strings.Builder, end time.Time, span time.Duration, now time.Time) {
	x := func(t time.Time) int { return min(wide, max(-1, wide-int(end.Sub(t)*wide/span))) }
	ended := s.ended
	if ended.IsZero() {
		ended = end // it lasts
	}
	took := ended
	if s.held >= 0 {
		took = ended.Add(-s.held)
		if s.ended.IsZero() {
			took = now.Add(-s.held)
		}
	}
	bar := func(class string, from, until, y, height int) {
		if until >= 0 {
			from = min(max(0, from), wide-leastBar)
			fmt.Fprintf(to, `<rect class="%s" x="%d" y="%d" width="%d" height="%d"/>`, class, from, y, max(leastBar, until-from), height)
		}
	}
	if s.waits {
		bar("wait", x(now.Add(-s.waited)), x(ended), 6, 2)
		return
	}
	if s.waited > 0 {
		bar("wait", x(took.Add(-s.waited)), x(took), 6, 2)
	}
	class := "hold"
	if s.bad {
		class = "lost"
	}
	bar(class, x(took), x(ended), 1, 12)
}
