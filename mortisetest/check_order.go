package mortisetest

import (
	"fmt"
	"slices"
)

// The model of a queue: the numbers of those in it, in their order.
type (
	join  int
	serve int
	quit  int
)

// checkOrder checks that requests are served in the order in which they were made, where that
// is promised.
func (h *History) checkOrder(rs []*holding) (problems []problem) {
	lines := map[[2]string][]*holding{}
	for _, r := range rs {
		if !r.waits || h.reenters(r, rs) || h.wasDisturbed(r) {
			continue
		}
		switch r.Queue {
		case Fair:
			key := [2]string{"", r.Kind}
			lines[key] = append(lines[key], r)
		case OfClient:
			key := [2]string{r.client, r.Kind}
			lines[key] = append(lines[key], r)
		}
	}
	for _, key := range sorted(lines) {
		problems = append(problems, h.checkLine(key[0], key[1], lines[key])...)
	}
	return problems
}

func (h *History) checkLine(client, kind string, rs []*holding) []problem {
	var items []item
	for n, r := range rs {
		// All that is asked at one time may arrive in any order.
		arrived := earlier(instant{r.begin.at + h.Latency, 1 << 62}, r.done)
		steps := []step{{r.begin, arrived, join(n)}}
		switch {
		case r.granted:
			steps = append(steps, step{later(r.begin, instant{at: r.done.at - h.Latency}), r.done, serve(n)})
		case r.done != never:
			steps = append(steps, step{later(r.begin, instant{at: r.done.at}), r.done, quit(n)})
		}
		items = append(items, item{at: r.begin, text: h.story(r), of: r, steps: steps})
	}
	promise := fmt.Sprintf("%s %q serves requests in another order than they were made", kind, rs[0].Name)
	if client != "" {
		promise += fmt.Sprintf(", all of them by %s", client)
	}
	m := model{promise: promise, init: "", step: func(state, do any) []any { return stepLine(state.(string), do) }}
	return m.check(items)
}

func stepLine(queue string, do any) []any {
	runes := []rune(queue)
	switch do := do.(type) {
	case join:
		return []any{string(append(runes, mark(int(do))))}
	case serve:
		if len(runes) == 0 || runes[0] != mark(int(do)) {
			return nil
		}
		return []any{string(runes[1:])}
	case quit:
		if !slices.Contains(runes, mark(int(do))) {
			return nil
		}
		return []any{remove(queue, int(do))}
	}
	return nil
}

// reenters reports whether the owner of r had the lock already when it asked.
func (h *History) reenters(r *holding, rs []*holding) bool {
	return slices.ContainsFunc(rs, func(o *holding) bool {
		return o != r && o.owner == r.owner && o.granted && o.begin.before(r.done) && r.begin.before(o.end)
	})
}

// wasDisturbed reports whether something may have cost r its place.
func (h *History) wasDisturbed(r *holding) bool {
	return h.forgot(r) || h.disturbs(r.client, r.begin, r.done)
}

// disturbs reports whether the link of a client was bad at some time.
func (h *History) disturbs(client string, from, to instant) bool {
	return slices.ContainsFunc(h.disturbed, func(e *disturbance) bool {
		return (e.client == "" || e.client == client) && e.from.before(to) && !e.to.before(from)
	})
}
