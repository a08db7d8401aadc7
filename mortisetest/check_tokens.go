package mortisetest

import (
	"fmt"
	"slices"
)

// checkTokens checks that the tokens of a name rise with every grant. Where Redis forgot
// them they start again, but a client that has had higher ones refuses them.
func (h *History) checkTokens(name string, rs []*holding) (problems []problem) {
	from, lapses := instant{}, h.lapses(name)
	for _, to := range append(slices.Clone(lapses), never) {
		problems = append(problems, h.tokensRise(fmt.Sprintf("the tokens of %q do not rise with every grant", name), rs, func(r *holding) bool {
			return !r.begin.before(from) && r.done.before(to)
		})...)
		from = to
	}
	if len(problems) > 0 || len(lapses) == 0 {
		return problems
	}
	clients := map[string]bool{}
	for _, r := range rs {
		if !clients[r.client] {
			clients[r.client] = true
			problems = append(problems, h.tokensRise(fmt.Sprintf("a client takes a token of %q that went back", name), rs, func(o *holding) bool { return o.client == r.client })...)
		}
	}
	return problems
}

// tokensRise checks the tokens of some grants.
func (h *History) tokensRise(promise string, rs []*holding, which func(r *holding) bool) []problem {
	var items []item
	for _, r := range rs {
		if r.Tokens && r.granted && which(r) {
			items = append(items, item{at: r.begin, text: h.story(r), of: r, steps: []step{{r.begin, r.done, r.token}}})
		}
	}
	m := model{
		promise: promise,
		init:    int64(0),
		step: func(state, do any) []any {
			if do.(int64) <= state.(int64) {
				return nil
			}
			return []any{do}
		},
	}
	return m.check(items)
}

// The model of an election: the last term that began, and what is known of it.
type (
	termState struct {
		token    int64
		value    string
		in, gone bool // it surely lasts; it has surely ended in Redis
	}
	elect struct {
		token int64
		value string
	}
	retire   int64 // the leader does not lead any more
	vanish   int64 // nor does Redis say so
	proclaim struct {
		elect
		maybe bool
	}
	see struct {
		elect      // 0 for nobody
		ghost bool // it may be a term whose reply its candidate never got
	}
)

// checkTerms checks what was seen of an election.
func (h *History) checkTerms(name string, rs []*holding) []problem {
	lapse := h.lapse(name) // what was seen later is not checked
	var items []item
	for _, r := range rs {
		if !r.granted || !r.done.before(lapse) {
			continue
		}
		over := step{r.end, r.released, vanish(r.token)}
		if r.released == never {
			over.to = r.end.later(r.lease)
		}
		steps := []step{{r.begin, r.done, elect{r.token, r.value}}, {r.end, r.end, retire(r.token)}, over}
		items = append(items, item{at: r.begin, text: h.story(r), steps: steps, needed: true, less: steps})
	}
	items = append(items, h.sights(name, rs, lapse)...)
	m := model{
		promise: fmt.Sprintf("what was seen of the election %q cannot have been", name),
		init:    termState{gone: true},
		near:    true,
		step:    func(state, do any) []any { return stepTerm(state.(termState), do) },
	}
	return m.check(items)
}

// sights returns what was seen and proclaimed of an election before lapse.
func (h *History) sights(name string, rs []*holding, lapse instant) (items []item) {
	for _, c := range h.calls {
		if c.family != string(Leading) || c.name != name || !c.begin.before(lapse) {
			continue
		}
		c = c.until(lapse)
		switch {
		case c.op == "Proclaim" && (c.err == nil || c.doubtful):
			steps := []step{{c.begin, c.last(), proclaim{elect{int64(c.n), c.value}, !c.over || c.err != nil}}}
			items = append(items, item{at: c.begin, text: c.story(), steps: steps, needed: true, less: steps})
		case c.op != "Proclaim" && c.over && c.err == nil:
			items = append(items, item{at: c.begin, text: c.story(), steps: []step{{c.begin, c.done, see{elect{int64(c.got), c.value}, h.ghost(rs, c)}}}})
		}
	}
	return items
}

// ghost reports whether c may have seen a term of which its candidate does not know: it began with a
// request whose reply was lost.
func (h *History) ghost(rs []*holding, c *call) bool {
	return slices.ContainsFunc(rs, func(r *holding) bool {
		last := r.done
		if !r.granted || h.wasDisturbed(r) {
			last = last.later(r.lease)
		}
		return r.value == c.value && r.begin.before(c.done) && !last.before(c.begin)
	})
}

func stepTerm(s termState, do any) []any {
	switch do := do.(type) {
	case elect:
		if do.token <= s.token {
			return nil
		}
		return []any{termState{token: do.token, value: do.value, in: true}}
	case retire:
		s.in = s.in && s.token != int64(do)
	case vanish:
		s.gone = s.gone || s.token == int64(do)
	case proclaim:
		if s.token != do.token {
			if do.maybe {
				return []any{s}
			}
			return nil
		}
		next := s
		next.value = do.value
		if do.maybe {
			return []any{s, next}
		}
		return []any{next}
	case see:
		return sees(s, do)
	}
	return []any{s}
}

// sees returns what the state is if somebody sees a leader, or nobody.
func sees(s termState, do see) []any {
	switch {
	case do.token == 0 && s.in:
		return nil
	case do.token == 0:
		return []any{s}
	case do.token == s.token && do.value == s.value && !s.gone:
		return []any{s}
	case do.token > s.token && do.ghost && !s.in:
		return []any{termState{token: do.token, value: do.value}}
	}
	return nil
}
