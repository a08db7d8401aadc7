package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

// view is the state of a name, with those who wait for it.
type view struct {
	mortise.State
	census    *census // of permits and plain locks
	listeners int     // Redisson's clients that listen for a release; -1 if that is not known
	unlisted  int     // waiters
	more      []field // of the JSON form
}

// view returns what show shows of a state. Without the right to read it, waiters are not shown.
func (a *app) view(ctx context.Context, client *mortise.Client, s mortise.State) (view, error) {
	v := view{State: s, census: newCensus(nil), listeners: -1}
	q, err := client.Queue(ctx, s.Name)
	part := err
	if (err == nil || isPart(err)) && (s.Kind == mortise.KindPermits || s.Kind == mortise.KindLock) {
		v.census, err = takeCensus(ctx, client)
		v.census.specify(&v.State)
		part = cmp.Or(part, err)
	}
	if isPart(part) && (err == nil || isPart(err)) {
		a.say("some processes are not known: %v", plain(part))
		err = nil
	}
	switch {
	case errors.Is(err, mortise.ErrDenied):
		a.say("the user has no right to read who waits")
		return v, nil
	case err != nil:
		return v, err
	}
	v.Queue, v.listeners, v.unlisted = q.Waiters, q.Listeners, q.Unlisted
	if v.Now.IsZero() {
		v.Now = q.Now
	}
	return v, nil
}

// MarshalJSON returns the fields of the state, with the waiters that are known in its queue, and how many more there are;
// listeners, if their number is known and not 0; and the processes that have permits.
func (v view) MarshalJSON() ([]byte, error) {
	more := v.more
	if v.listeners > 0 {
		more = append(more, field{"listeners", v.listeners})
	}
	if v.unlisted > 0 {
		more = append(more, field{"more_waiters", v.unlisted})
	}
	if p := v.census.permitHolders(&v.State); len(p) > 0 {
		more = append(more, field{"permit_holders", p})
	}
	return withFields(v.State, more...)
}

// writeWaiters writes the waiters in their order.
func (v *view) writeWaiters(w io.Writer) {
	for i, q := range v.Queue[:min(mostRows, len(v.Queue))] {
		words := []string{waiterText(q, v.Now)}
		if side, ok := strings.CutPrefix(q.Kind, "rwlock."); ok {
			words = append(words, "to "+side)
		}
		if strings.Contains(q.Owner, ":") { // it is in the queue of a fair lock
			deadline := "past its deadline"
			if q.TTL >= 0 {
				deadline = "deadline in " + duration.Round(q.TTL).String()
			}
			words = append(words, deadline)
		}
		fmt.Fprintf(w, "waiter %d\t%s\n", i+1, strings.Join(words, "  "))
	}
	if more := v.unlisted + max(0, len(v.Queue)-mostRows); more > 0 {
		fmt.Fprintf(w, "waiters\t%d more\n", more)
	}
	if n := v.listeners; n > 0 {
		fmt.Fprintf(w, "listening\t%s\n", counted(n, "Redisson client")+map[bool]string{true: " listens", false: " listen"}[n == 1])
	}
}
