//go:build !race

package waiting

import (
	"hash/maphash"
	"reflect"
	"time"
)

// key identifies the state: what can happen from here on depends on nothing else.
func (w *modelWorld) key() uint64 {
	d := newModelDump(w.clients...)
	put := func(values ...any) {
		for _, v := range values {
			d.value(reflect.ValueOf(v))
			d.out = append(d.out, '|')
		}
	}
	s := w.server
	s.expire()
	put(s.owner)
	if s.owner != "" {
		put(s.count, time.Until(s.expires))
	}
	for _, t := range s.turns {
		put(t.entry)
	}
	put(max(s.leftFor(), 0))
	for _, c := range w.clients {
		d.value(reflect.ValueOf(QueuesOf(c)))
	}
	for _, m := range w.drivers {
		put(m.asked, m.listens, len(m.inbox))
		for _, m := range m.inbox {
			put(m.channel, m.payload)
		}
	}
	for _, g := range w.goroutines {
		put(g.left, uint8(g.state), g.gaveUp, g.ctx != nil && g.ctx.Err() != nil, g.request, g.contest, g.wakes)
		if g.hold != nil {
			put(g.hold.Owner(), w.expired[g.hold.Owner()])
		}
	}
	for _, t := range w.tasks {
		put(t.of != nil, t.ran)
		if t.call != nil {
			put(t.call.Script.Name(), t.call.Args)
		}
		if t.ran {
			put(t.reply.String())
		}
	}
	for _, c := range w.copies {
		put(c.Script.Name(), c.Args)
	}
	l := w.limits
	put(len(w.pending), l.giveUps, l.messages, l.replies, l.copies, l.expiries, l.polls, l.renewals, w.excused, len(w.old))
	return maphash.Bytes(modelSeed, d.out)
}

var modelSeed = maphash.MakeSeed()
