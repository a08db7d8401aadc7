package mortise

import (
	"context"
	"log/slog"
	"time"
)

// logger writes events to a log, as [Options.Logger] says.
type logger struct{ to *slog.Logger }

// levels are the levels of the events. What goes as usual is for debugging.
var levels = map[EventType]slog.Level{
	EventWaiting: slog.LevelDebug, EventAcquired: slog.LevelDebug, EventRefused: slog.LevelDebug,
	EventRenewed: slog.LevelDebug, EventReleased: slog.LevelDebug, EventResolved: slog.LevelInfo,
	EventPassedOver: slog.LevelInfo, EventAsked: slog.LevelInfo, EventGap: slog.LevelInfo,
	EventRenewalFailing: slog.LevelWarn, EventPaused: slog.LevelWarn, EventMute: slog.LevelWarn,
	EventLost: slog.LevelError, EventDeadlock: slog.LevelError,
}

// longPause is the shortest pause that is worth a warning. If a shorter one has come near to the end of a lease, other events say so.
const longPause = time.Second

// texts are the messages of the events.
var texts = map[EventType]string{
	EventWaiting: "waiting for the lock", EventAcquired: "lock acquired", EventRefused: "lock not acquired",
	EventRenewed: "leases renewed", EventReleased: "lock released", EventResolved: "doubtful acquisition undone",
	EventPassedOver: "dead waiters passed over", EventAsked: "asked to release the lock", EventGap: "subscription was interrupted",
	EventRenewalFailing: "renewals are failing", EventPaused: "the process stood still",
	EventLost: "lock lost", EventDeadlock: "deadlock", EventMute: "the server passes no messages on: waiters ask once a second",
}

// Observe writes e to the log.
func (l logger) Observe(e Event) {
	ctx := e.Context
	if ctx == nil {
		ctx = context.Background()
	}
	level := levels[e.Type]
	if e.Type == EventPaused && e.Pause < longPause {
		level = slog.LevelInfo
	}
	if !l.to.Enabled(ctx, level) {
		return
	}
	l.to.LogAttrs(ctx, level, "mortise: "+texts[e.Type], e.attributes()...)
}

// attributes returns what a log line says of e.
func (e *Event) attributes() []slog.Attr {
	a := make([]slog.Attr, 0, 12)
	text := func(key, value string) {
		if value != "" {
			a = append(a, slog.String(key, value))
		}
	}
	span := func(key string, d time.Duration) {
		if d != 0 {
			a = append(a, slog.Duration(key, d))
		}
	}
	text("lock", e.Lock)
	text("kind", e.Kind)
	if e.Call != 0 {
		a = append(a, slog.Uint64("call", e.Call))
	}
	text("owner", e.Owner)
	if e.Token != 0 {
		a = append(a, slog.Int64("token", e.Token))
	}
	text("how", string(e.How))
	if e.Blocker != nil {
		text("blocker", e.Blocker.String())
	}
	span("waited", e.Waited)
	span("held", e.Held)
	if e.Type == EventRenewed || e.Type == EventRenewalFailing {
		a = append(a, slog.Int("leases", e.Leases), slog.Duration("margin", e.Margin))
	}
	span("pause", e.Pause)
	if e.Passed != 0 {
		a = append(a, slog.Int("passed", e.Passed))
	}
	if e.Err != nil {
		text("error", e.Err.Error())
	}
	return a
}
