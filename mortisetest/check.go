package mortisetest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// problem is a promise that was broken.
type problem struct {
	title string
	lines []string
}

func (p problem) String() string { return p.title + "\n\t" + strings.Join(p.lines, "\n\t") }

// item is what a story tells or leaves out as a whole: a hold, or a call.
type item struct {
	at    instant
	text  string
	steps []step
	of    *holding // if it is a hold

	// An item without which others would be wrong cannot be left out. What it claims can:
	// these are its steps if nothing is asked but that it happened.
	needed bool
	less   []step
}

// last is the last moment of the item.
func (i *item) last() (t instant) {
	for _, s := range i.steps {
		if t.before(s.to) {
			t = s.to
		}
	}
	return t
}

// step is something that happened in one moment, between from and to.
type step struct {
	from, to instant
	do       any // what it is to the model
}

// model says what a correct service may do. States must be comparable.
type model struct {
	promise string // what is broken if it does something else
	init    any
	step    func(state, do any) (next []any)
	moral   func(items []item) []string // the end of the story, or nil
	near    bool                        // only what was under way at the time of what is wrong matters
}

// mostSteps bounds the work for one name, which is exponential in the calls that are under way at once.
const mostSteps = 5_000_000

// check returns what is wrong with the items, if anything is.
func (m *model) check(items []item) (p []problem) {
	ok, known := m.allows(items)
	if !known {
		return []problem{{"the history is too large to be checked: too many calls are under way at the same time", []string{m.promise}}}
	}
	if ok {
		return nil
	}
	items = m.shrink(items)
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.at.at, b.at.at), cmp.Compare(a.at.seq, b.at.seq))
	})
	var lines []string
	for _, i := range items {
		lines = append(lines, i.text)
	}
	if m.moral != nil {
		lines = append(lines, m.moral(items)...)
	}
	return []problem{{m.promise, lines}}
}

// allows reports whether the model could have done all steps of the items, each in its time.
func (m *model) allows(items []item) (ok, known bool) {
	budget := mostSteps
	nm := porcupine.NondeterministicModel{
		Init: func() []any { return []any{m.init} },
		Step: func(state, do, _ any) []any {
			if budget--; budget < 0 {
				return nil
			}
			return m.step(state, do)
		},
	}
	ok = porcupine.CheckOperations(nm.ToModel(), operations(items))
	return ok, ok || budget >= 0
}

// operations numbers the instants of the items in their order.
func operations(items []item) (ops []porcupine.Operation) {
	var all []instant
	for _, i := range items {
		for _, s := range i.steps {
			all = append(all, s.from, s.to)
		}
	}
	order := func(a, b instant) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
	}
	slices.SortFunc(all, order)
	all = slices.Compact(all)
	number := func(i instant) int64 {
		n, _ := slices.BinarySearchFunc(all, i, order)
		return int64(n)
	}
	for _, i := range items {
		for _, s := range i.steps {
			ops = append(ops, porcupine.Operation{Input: s.do, Call: number(s.from), Return: max(number(s.to), number(s.from))})
		}
	}
	return ops
}

// shrink leaves out items, many at once and then one by one, while what is left is still wrong.
func (m *model) shrink(items []item) (story []item) {
	out := make([]bool, len(items))
	for size := (len(items) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(items); from += size {
			try := slices.Clone(out)
			for i := from; i < min(from+size, len(items)); i++ {
				try[i] = true
			}
			if ok, known := m.allows(without(items, try)); !ok && known {
				out = try
			}
		}
	}
	return m.background(items, out)
}

// background adds to the items that are not left out those that explain them.
func (m *model) background(items []item, out []bool) (story []item) {
	first, last := never, instant{}
	for n, i := range items {
		if !out[n] {
			story, first = append(story, i), earlier(first, i.at)
			if last.before(i.last()) {
				last = i.last()
			}
		}
	}
	if len(story) == 0 { // what cannot be left out is wrong by itself
		return m.least(items)
	}
	for n, i := range items {
		if out[n] && i.needed && i.at.before(last) && (!m.near || first.before(i.last())) {
			story = append(story, i)
		}
	}
	return story
}

// least removes items that others may need, from the last one on, while what is left is still wrong.
func (m *model) least(items []item) []item {
	story := slices.DeleteFunc(slices.Clone(items), func(i item) bool { return !i.needed })
	for n := len(story) - 1; n >= 0; n-- {
		try := slices.Delete(slices.Clone(story), n, n+1)
		if ok, known := m.allows(try); !ok && known {
			story = try
		}
	}
	return story
}

// without leaves out items, as far as others do not need them.
func without(items []item, out []bool) (rest []item) {
	for n, i := range items {
		if out[n] && !i.needed {
			continue
		}
		if out[n] {
			i.steps = i.less
		}
		rest = append(rest, i)
	}
	return rest
}

// problems checks every name by itself.
func (h *History) problems() (all []problem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	held := map[[2]string][]*holding{}
	for _, r := range h.holdings {
		h.settle(r, now)
		key := [2]string{r.Sort.family(), r.Name}
		held[key] = append(held[key], r)
	}
	for _, key := range sorted(held) {
		rs := held[key]
		all = append(all, h.checkHolds(key[0], key[1], rs)...)
		all = append(all, h.checkRefusals(rs)...)
		all = append(all, h.checkTokens(key[1], rs)...)
		all = append(all, h.checkOrder(rs)...)
		if key[0] == string(Leading) {
			all = append(all, h.checkTerms(key[1], rs)...)
		}
	}
	calls := map[[2]string][]*call{}
	for _, c := range h.calls {
		key := [2]string{c.family, c.name}
		calls[key] = append(calls[key], c)
	}
	for _, key := range sorted(calls) {
		if known := h.known(key[1], calls[key]); len(known) > 0 {
			all = append(all, h.checkCalls(key[0], known, earlier(now, h.lapse(key[1])))...)
		}
	}
	return all
}

// checkCalls checks the calls of one name, of which all is known until end.
func (h *History) checkCalls(family string, calls []*call, end instant) []problem {
	switch family {
	case "latch":
		return h.checkLatch(calls, end)
	case "semaphore":
		return checkSemaphore(calls)
	case "barrier":
		return checkBarrier(calls)
	case "double barrier":
		return checkDoubleBarrier(calls)
	}
	return nil // it is checked with the holds of its name
}

func sorted[V any](m map[[2]string]V) (keys [][2]string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return keys
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// A set of items is a string of their numbers, in ascending order, so that it can be compared.

func add(set string, i int) string {
	runes := []rune(set)
	at, found := slices.BinarySearch(runes, mark(i))
	if found {
		return set
	}
	return string(slices.Insert(runes, at, mark(i)))
}

func remove(set string, i int) string { return strings.ReplaceAll(set, string(mark(i)), "") }

func has(set string, i int) bool { return strings.ContainsRune(set, mark(i)) }

func size(set string) int { return len([]rune(set)) }

// union returns the items of both sets.
func union(a, b string) string {
	for _, r := range b {
		a = add(a, int(r-firstMark))
	}
	return a
}

// firstMark is in a part of Unicode where nothing is invalid for as many items as a history has.
const firstMark = 0x20000

func mark(i int) rune { return rune(firstMark + i) }
