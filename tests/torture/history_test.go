package torture

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// span is a time in which something certainly was so; times are those of torture.Now.
type span struct{ from, to int64 }

// use is a span in which a hold was valid, of a thing that is locked.
type use struct {
	span
	asked int64 // when the client had not yet begun to ask for the lease of the hold
	began int64 // when the first hold of that lease began, which was handed on since then; 0 if it is this one
	mode  mode
	token int64
	who   string
}

// mode is how a hold uses a thing.
type mode int

const (
	alone  mode = iota
	shared      // with others that share it
	permit      // up to a number
)

// history is what happened to one thing in one round.
type history struct {
	thing   string
	permits int // that exist, if uses are permits
	uses    []use
}

// overlap is more use of a thing at the same time than is allowed.
type overlap struct {
	span
	thing string
	uses  []use
}

func (o overlap) String() string {
	s := fmt.Sprintf("%s: held by too many for %v:", o.thing, time.Duration(o.to-o.from).Round(time.Microsecond))
	for _, u := range o.uses {
		s += fmt.Sprintf(" %s from %+v to %+v (token %d);", u.who,
			time.Duration(u.from-o.from).Round(time.Microsecond), time.Duration(u.to-o.from).Round(time.Microsecond), u.token)
	}
	return s
}

// overlaps returns where too many holds were valid at the same time.
func (h *history) overlaps() (found []overlap) {
	uses := slices.Clone(h.uses)
	slices.SortFunc(uses, func(a, b use) int { return cmp.Compare(a.from, b.from) })
	var open []use
	for _, u := range uses {
		open = slices.DeleteFunc(open, func(o use) bool { return o.to <= u.from })
		var others []use
		end := u.to
		for _, o := range open {
			if u.mode == permit || u.mode == alone || o.mode == alone {
				others = append(others, o)
				end = min(end, o.to)
			}
		}
		open = append(open, u)
		if len(others) > 0 && (u.mode != permit || len(others) >= h.permits) && end > u.from {
			found = append(found, overlap{span{u.from, end}, h.thing, append(others, u)})
		}
	}
	return found
}

// arrival is how long a reply takes at most, on a busy machine, until the client that has the hold by it looks at
// the clock: Redis may have forgotten that hold before, if the client had asked for it by then.
const arrival = 100 * time.Millisecond

// admitted reports whether one of the faults explains an overlap: Redis forgot in that span what
// it had confirmed, an older hold did not know, and learned it before its lease was over. The
// younger one has come since then.
func admitted(o overlap, faults []span, ttl time.Duration) bool {
	for _, f := range faults {
		older := slices.ContainsFunc(o.uses, func(u use) bool { return u.asked <= f.to && cmp.Or(u.began, u.from)-int64(arrival) <= f.to })
		if older && o.from >= f.from && o.to <= f.to+int64(ttl) {
			return true
		}
	}
	return false
}
