package watch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
)

// Merge returns the snapshot of a look. Last is the snapshot before, nil for the first look; it is not
// changed. Wanted says which names to watch.
func Merge(last *Snapshot, s Sighting, wanted func(name string) bool) *Snapshot {
	if last == nil {
		last = &Snapshot{}
	}
	m := &merger{last: last, sighting: s, wanted: wanted, now: &Snapshot{
		At: s.At, Holds: make(map[HoldKey]*Hold), Waits: make(map[WaitKey]*Wait), Asked: make(map[HoldKey]Request),
		held: make(map[string]bool), ended: make(map[HoldKey]Ending), served: make(map[WaitKey]bool), claims: make(map[HoldKey]time.Time), young: make(map[HoldKey]*Hold),
		viewed: make(map[string]time.Time), before: make(map[string]*formerly), processes: make(map[string]process),
	}, present: make(map[string]*mortise.ClientState), unsettled: make(map[string]bool), lost: make(map[HoldKey]Ending), waits: make(map[WaitKey]bool)}
	for i := range s.Clients {
		m.present[s.Clients[i].ID] = &s.Clients[i]
	}
	m.know()
	for i := range s.Clients {
		m.record(&s.Clients[i])
	}
	for _, name := range slices.Sorted(maps.Keys(s.States)) {
		state := s.States[name]
		m.state(&state)
	}
	m.carry()
	for key, r := range m.last.Asked {
		if m.sighting.Unread[r.Party.Client] && m.now.Holds[key] != nil {
			m.now.Asked[key] = r
		}
	}
	m.leave()
	m.succeed()
	m.formers()
	for key := range m.now.Holds {
		m.now.held[key.Lock] = true
	}
	m.remember()
	return m.now
}

// merger is one run of Merge.
type merger struct {
	last, now *Snapshot
	sighting  Sighting
	wanted    func(string) bool
	present   map[string]*mortise.ClientState
	unsettled map[string]bool    // locks with a hold that is claimed, but not in the key
	lost      map[HoldKey]Ending // claims that have lasted for too long
	waits     map[WaitKey]bool   // that records list
}

// record takes over what the record of a client says.
func (m *merger) record(c *mortise.ClientState) {
	for i := range c.Holds {
		if h := &c.Holds[i]; m.wanted(h.Lock) && h.Owner != "" {
			m.claim(c, h)
		}
	}
	for _, r := range c.Asked {
		for _, h := range c.Holds {
			if h.Owner == r.Owner && m.wanted(h.Lock) {
				m.now.Asked[HoldKey{h.Lock, h.Owner}] = Request{Lock: h.Lock, Party: party(&c.ClientInfo, h.Owner), By: r.By, Reason: r.Reason}
			}
		}
	}
	for i := range c.Waits {
		w := &c.Waits[i]
		if !m.wanted(w.Lock) {
			continue
		}
		key := WaitKey{Lock: w.Lock, Kind: w.Kind, Client: c.ID, Since: w.Since.UnixMilli()}
		for m.waits[key] {
			key.Nth++
		}
		m.waits[key] = true
		m.now.Waits[key] = &Wait{Lock: w.Lock, Kind: w.Kind, Party: party(&c.ClientInfo, ""), Since: w.Since, For: m.blocker(w.For), More: w.More}
	}
}

// blocker returns the party that an owner belongs to.
func (m *merger) blocker(owner string) Party {
	if c := m.present[clientOf(owner)]; c != nil {
		return party(&c.ClientInfo, owner)
	}
	return party(nil, owner)
}

// claim takes over a hold that a record lists, unless the key has lacked it for too long.
func (m *merger) claim(c *mortise.ClientState, r *mortise.ClientHold) {
	h := &Hold{
		Lock: r.Lock, Kind: r.Kind, Party: party(&c.ClientInfo, r.Owner), Since: r.Since, Exact: true, Token: r.Token, Waited: -1,
		recorded: true, silent: c.Silent,
	}
	key := h.key()
	old := m.last.Holds[key]
	since, claimed := m.last.claims[key]
	state, read := m.sighting.States[r.Lock]
	found := has(&state, r.Owner)
	read = read && keyed[r.Kind] && (found || state.Unlisted == 0)
	switch {
	case read && !found:
		if !claimed {
			since = m.now.At
		}
		m.now.claims[key] = since
		if m.now.At.Sub(since) >= claimLasts {
			m.lost[key] = Ending{Lost: true, Why: "its lease is gone from Redis, and its client has not said so", at: since}
			if c.IsSilent() {
				m.lost[key] = Ending{Lost: true, Why: "its client is silent for " + c.Silent.Round(time.Second).String(), at: since}
			}
			return
		}
		m.unsettled[r.Lock] = true
		if old == nil {
			return // it may be over for long
		}
	case !read && claimed:
		m.now.claims[key] = since
		if old == nil {
			return
		}
		m.unsettled[r.Lock] = true
	}
	switch {
	case read:
		h.Until = expiry(m.now.At, &state)
	case r.Kind == permitKind:
		h.Until = permitExpiry(m.now.At, state.Permits, r.Owner)
	}
	m.now.Holds[key] = h
}

// permitExpiry returns when the first lease of some permits ends unless renewed; zero if that is not known. Owner
// has the ids of the permits.
func permitExpiry(at time.Time, permits []mortise.Permit, owner string) (first time.Time) {
	ids := strings.Split(owner, ",")
	for _, p := range permits {
		if until := at.Add(p.TTL); p.TTL > 0 && slices.Contains(ids, p.ID) && (first.IsZero() || until.Before(first)) {
			first = until
		}
	}
	return first
}

// has reports whether the key has an owner.
func has(s *mortise.State, owner string) bool {
	owner = strings.TrimSuffix(owner, ":write")
	return slices.ContainsFunc(s.Holders, func(h mortise.Holder) bool { return strings.TrimSuffix(h.Owner, ":write") == owner })
}

// expiry returns when the lease of a key ends unless renewed; zero if it does not.
func expiry(at time.Time, s *mortise.State) time.Time {
	if s.TTL <= 0 {
		return time.Time{}
	}
	return at.Add(s.TTL)
}

// state takes over the holders that a key has, and no record.
func (m *merger) state(s *mortise.State) {
	if !m.wanted(s.Name) {
		return
	}
	m.now.viewed[s.Name] = m.now.At
	for i := range s.Holders {
		h := &s.Holders[i]
		key := m.same(s.Name, h.Owner)
		if m.now.Holds[key] != nil {
			continue
		}
		if old := m.last.Holds[key]; old != nil {
			kept := *old
			kept.recorded, kept.Until, kept.gone = old.recorded && m.unread(old), expiry(m.now.At, s), time.Time{}
			m.now.Holds[key] = &kept
			continue
		}
		if m.now.claims[key].IsZero() && s.Unlisted == 0 { // else it may be missing in the next look, and last on
			m.stranger(key, s, h)
		}
	}
}

// same returns the key of a hold of an owner: records may leave out the suffix of a writer.
func (m *merger) same(lock, owner string) HoldKey {
	short := HoldKey{lock, strings.TrimSuffix(owner, ":write")}
	if m.now.Holds[short] != nil || m.last.Holds[short] != nil {
		return short
	}
	return HoldKey{lock, owner}
}

// stranger takes over a holder that no record names. For a while it waits for one, and as long as it is
// not known how the hold before it has ended.
func (m *merger) stranger(key HoldKey, s *mortise.State, h *mortise.Holder) {
	_, viewed := m.last.viewed[s.Name]
	one := m.last.young[key]
	if one == nil {
		one = &Hold{Lock: s.Name, Kind: string(s.Kind), Since: m.now.At, Found: !viewed && !m.last.held[s.Name] && !m.sighting.Later[s.Name], Token: s.Token, Waited: -1}
	}
	next := *one
	next.Party, next.Until = party(h.Client, h.Owner), expiry(m.now.At, s)
	if s.Mode != "" {
		next.Kind = "rwlock." + s.Mode
	}
	if !h.Since.IsZero() {
		next.Since, next.Exact = h.Since, true
	}
	if !m.unsettled[s.Name] && (next.Party.Named() || m.now.At.Sub(one.Since) >= unnamed) {
		m.name(&next.Party)
		m.now.Holds[key] = &next
		return
	}
	m.now.young[key] = &next
}

// remember takes over when keys were read, for as long as something is known of them.
func (m *merger) remember() {
	known := maps.Clone(m.now.held)
	for key := range m.now.young {
		known[key.Lock] = true
	}
	for key := range m.now.claims {
		known[key.Lock] = true
	}
	for key := range m.now.Waits {
		known[key.Lock] = true
	}
	for name, at := range m.last.viewed {
		if _, ok := m.now.viewed[name]; !ok && (known[name] || m.now.At.Sub(at) < viewLasts) {
			m.now.viewed[name] = at
		}
	}
}

// carry takes over what was known before and cannot be denied, and says how the rest has ended.
func (m *merger) carry() {
	for key, h := range m.last.young {
		switch {
		case m.now.young[key] != nil || m.now.Holds[key] != nil:
		case !m.whole(key.Lock):
			m.now.young[key] = h
		default:
			short := *h
			m.name(&short.Party)
			m.now.brief = append(m.now.brief, &short)
		}
	}
	for key, h := range m.last.Holds {
		if m.now.Holds[key] != nil {
			continue
		}
		kept := *h
		switch {
		case m.lasts(h):
			m.now.Holds[key] = &kept
		case h.gone.IsZero():
			kept.gone, kept.how = m.now.At, m.ending(key, h)
			fallthrough
		default:
			m.over(key, &kept)
		}
	}
}

// over ends a hold that is over, unless the holder after it waits to be named: with that, the record
// tells since when it has the lock.
func (m *merger) over(key HoldKey, h *Hold) {
	for k := range m.now.young {
		if k.Lock == key.Lock {
			m.now.Holds[key] = h
			return
		}
	}
	if h.how.at.IsZero() {
		h.how.at = h.gone
	}
	m.now.ended[key] = h.how
}

// lasts reports whether a hold that was not seen in this look lasts on, as far as is known.
func (m *merger) lasts(h *Hold) bool {
	if _, lost := m.lost[h.key()]; lost || !h.gone.IsZero() {
		return false
	}
	if m.whole(h.Lock) && (keyed[h.Kind] || !h.recorded) {
		return false
	}
	if !h.recorded || m.unread(h) {
		return true
	}
	c := m.present[h.Party.Client]
	return c != nil && len(c.Holds) < c.HoldCount // the record does not list all
}

// whole reports whether the key of a lock was read, and all its holders: one that is not among them does not hold it.
func (m *merger) whole(lock string) bool {
	state, read := m.sighting.States[lock]
	return read && state.Unlisted == 0
}

// unread reports whether the record of the client of a hold could not be read.
func (m *merger) unread(h *Hold) bool { return m.sighting.Unread[h.Party.Client] }

// ending says how a hold has ended.
func (m *merger) ending(key HoldKey, h *Hold) Ending {
	if e, ok := m.lost[key]; ok {
		return e
	}
	switch {
	case m.unread(h):
		return Ending{Unsure: true, Why: "the record of its client could not be read"}
	case h.silent > silence:
		return Ending{Lost: true, Why: "its client was silent for " + h.silent.Round(time.Second).String()}
	case !h.recorded && !h.Until.IsZero() && !m.now.At.Before(h.Until):
		return Ending{Lost: true, Why: "its lease was over"}
	case m.sighting.Gap:
		return Ending{Unsure: true, Why: "Redis could not be read meanwhile"}
	case h.recorded && m.present[h.Party.Client] == nil && h.silent > silence/2:
		return Ending{Unsure: true, Why: "its client has gone"}
	}
	return Ending{}
}

// fresh returns the holds that the snapshot before has not, also those that have gone already, the
// oldest first.
func (m *merger) fresh() []*Hold {
	list := slices.Clone(m.now.brief)
	for key, h := range m.now.Holds {
		if begun(m.last.Holds[key], h) {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *Hold) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Lock, b.Lock), strings.Compare(a.Party.Owner, b.Party.Owner))
	})
	return list
}

// begun reports whether h is another hold than old, which has the same key or is nil.
func begun(old, h *Hold) bool {
	return old == nil || old.Exact && h.Exact && !old.Since.Equal(h.Since)
}
