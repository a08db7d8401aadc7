package dashboard

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// refused is what the log says of an action that is not allowed.
	refused = "refused"
	// mostRefusals is how many lines a second the log gets about those: anybody who reaches the port can cause them.
	mostRefusals = 5
	// mostLogged is the longest text of a line, in bytes: a name as long as they may be, quoted.
	mostLogged = 600
)

// refusals bounds what the log says about actions that are not allowed.
type refusals struct {
	mu    sync.Mutex // guards the fields below
	since time.Time  // when the second has begun
	told  int        // in this second
	left  int        // were not told since the last line
}

// next reports whether the log may have a line now, and how many were left out before it.
func (l *refusals) next() (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.since) >= time.Second {
		l.since, l.told = now, 0
	}
	if l.told == mostRefusals {
		l.left++
		return 0, false
	}
	l.told++
	leftOut, l.left = l.left, 0
	return leftOut, true
}

// bounded returns attributes whose texts can be read and are not long, whoever has written them.
func bounded(attributes []slog.Attr) []slog.Attr {
	for i, a := range attributes {
		if a.Value.Kind() == slog.KindString && a.Value.String() != "" {
			attributes[i].Value = slog.StringValue(cut(shown(cut(a.Value.String(), mostLogged)), mostLogged))
		}
	}
	return attributes
}
