package dashboard

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// coalesce is the shortest time between two changes of a page, and beatEvery the longest without a sign of life.
	coalesce, beatEvery = 500 * time.Millisecond, 5 * time.Second
	// authorizeEvery is how often Authorize is asked about a browser that follows a page.
	authorizeEvery = 10 * time.Second
	// writeLimit is how long a browser may take to read what it is sent.
	writeLimit = 15 * time.Second
)

// isStream reports whether a request is for a stream.
func isStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// stream tells a browser of the changes of a page, as server-sent events, until it goes or the dashboard is closed:
//
//	page  what is live of the page, when it has changed
//	beat  the time of Redis' clock, in ms, and the bottom of the page, every five seconds
func (b *Dashboard) stream(w http.ResponseWriter, r *http.Request, v *view) {
	leave, err := b.poller.join()
	if err != nil {
		w.Header().Set("Retry-After", "30")
		b.fail(w, r, http.StatusServiceUnavailable, "Too many browsers look at once", fmt.Sprintf("At most %d are told of changes. Pages without a stream are still served.", mostStreams))
		return
	}
	defer leave()
	if name := v.Get("name"); name != "" {
		defer b.poller.details.keep(name)()
	}
	b.poller.wake()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx
	s := teller{w: w, to: http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	s.tell("", "retry: 2000\n\n")
	b.follow(r, v, &s)
}

// follow reports changes until the browser has gone or the dashboard is closed.
func (b *Dashboard) follow(r *http.Request, v *view, s *teller) {
	var sum uint64
	var told time.Time
	allowed := time.Now() // by serve
	for !s.gone {
		scene, changed := b.poller.now()
		now := time.Now()
		if b.options.Authorize != nil && now.Sub(allowed) >= authorizeEvery {
			allowed = now
			if b.options.Authorize(r, Action{Verb: View}) != nil {
				return // the browser asks for the stream again, and is told why it gets none
			}
		}
		if now.Sub(told) >= beatEvery {
			told = now
			b.beat(s)
		}
		if page := b.render(scene, v, true); page.sum != sum {
			sum = page.sum
			s.tell("page", string(slices.Concat(page.alert, page.lead, page.body)))
		}
		if !pause(r, b, coalesce) {
			return
		}
		timer := time.NewTimer(beatEvery - coalesce)
		select {
		case <-changed:
			timer.Stop()
		case <-timer.C:
		case <-r.Context().Done():
			timer.Stop()
			return
		case <-b.poller.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// beat sends the time and what looking costs.
func (b *Dashboard) beat(s *teller) {
	s.tell("beat", strconv.FormatInt(b.poller.clock().UnixMilli(), 10)+"\n"+string(b.execute("foot", b.foot())))
}

// pause waits, and reports whether to go on.
func pause(r *http.Request, b *Dashboard, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-b.poller.ctx.Done():
	}
	return false
}

// teller sends events to a browser.
type teller struct {
	w    http.ResponseWriter
	to   *http.ResponseController
	gone bool // the browser
}

// tell sends an event; without a type, text as it is.
func (s *teller) tell(event, text string) {
	var out bytes.Buffer
	if event == "" {
		out.WriteString(text)
	} else {
		out.WriteString("event: " + event + "\n")
		for line := range bytes.Lines([]byte(text)) {
			out.WriteString("data: ")
			out.Write(bytes.TrimRight(line, "\r\n"))
			out.WriteByte('\n')
		}
		out.WriteByte('\n')
	}
	_ = s.to.SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has one
	if _, err := s.w.Write(out.Bytes()); err != nil {
		s.gone = true
		return
	}
	if err := s.to.Flush(); err != nil {
		s.gone = true
	}
}
