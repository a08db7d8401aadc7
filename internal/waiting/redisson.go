package waiting

import (
	"cmp"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// Redisson's threads wait for the announcement of a release. They need some milliseconds
// to receive it and to ask for the lock; a goroutine here is much faster. So if they take
// part in a lock, a client leaves it to them for a moment after each of its slices, unless
// they have had it more often than the client since its last slice.
//
// A client learns about them from requests that it makes anyway: a release reports whether
// they listen, and a refusal whether one of them has the lock. Where there are none, they
// cost nothing.

// sharing is what a client knows about Redisson's part in one lock. It is guarded by
// Client.Mu.
type sharing struct {
	seen   time.Time // when a thread was last known to listen or to have the lock
	heard  int       // releases heard since a thread was last seen in Redis to have acquired the lock
	holder string    // that thread
	until  time.Time // when the lease that it had then ends
	from   time.Time // when the lock was left to them last; zero if it is known whether they acquired it
	after  time.Time // they have the first chance to acquire it until then
	twice  bool      // it was left to them once more meanwhile
	theirs int       // how often they had it since then, as far as was heard
	due    int       // how often they may have it in a row; 0 is once
	vain   int       // how often in a row none of them acquired it
	keep   time.Time // it is not left to them until then, because they did not acquire it

	// Only for a spin lock:
	began time.Time     // when the client's slice began; zero if it has none
	freed time.Time     // when the client last released it
	idle  time.Duration // how long it was free in that slice
	rival time.Time     // when another client of this package's was last seen to have the lock
}

const (
	// sharedFor is how long threads are believed to take part after they were last seen.
	sharedFor = 5 * time.Second
	// sliceTime is how long a client has a shared lock in one slice, unless a single hold
	// lasts longer.
	sliceTime = time.Millisecond
	// chance is how long a lock is left to them: some milliseconds more than they need
	// on busy CPUs. It ends as soon as one of them has acquired the lock.
	chance = 20 * time.Millisecond
	// leastChance is the shorter grace period, which counts after more than hearsay releases
	// were announced without one of them being seen to have the lock. Such releases may be
	// of another lock whose name has the same channel, or of one in another database.
	leastChance = 5 * time.Millisecond
	hearsay     = 2
	// keepLeast and keepMost bound how long a lock is not left to them after they did
	// not acquire it three or more times in a row: their process may be frozen.
	keepLeast = 40 * time.Millisecond
	keepMost  = time.Second
	// mostHearsay is how many chances in vain a client believes in without a grant.
	mostHearsay = 5
	// mostTheirs bounds how many of their slices the client makes up for.
	mostTheirs = 8
	// spinSlice is how long a side has a shared spin lock in one slice. For as long
	// again it is left to the other side, whose threads retry at such intervals.
	spinSlice = 50 * time.Millisecond
	// spinSliceUnseen is the same while nobody else was seen to have the lock. Waiters
	// that retry without success leave no trace, so it is left to them unseen, but
	// seldom.
	spinSliceUnseen = 8 * spinSlice
	// spinSliceRival is the same while only other clients of this package were seen to
	// have it. The more of them there are, the more slices pass before a thread
	// happens to be the first to retry.
	spinSliceRival = 4 * spinSlice
)

// sharings is what a client knows about Redisson's part in its locks, by their channel or
// name. It is guarded by Client.Mu.
type sharings struct {
	client *Queues
	of     map[string]*sharing
}

// sharedAs is the key of the lock in Queues.sharing.
func sharedAs(k *lease.Lock) string { return cmp.Or(k.Ops().Channel(), k.Key()) }

// shared returns the record of a lock, or nil if no thread of Redisson's is known to take
// part. It must be called with Client.Mu held.
func (r *sharings) shared(as string) *sharing {
	s := r.of[as]
	if s == nil || time.Since(s.seen) > sharedFor {
		return nil
	}
	return s
}

// met notes that Redisson's threads take part in a lock, and returns its record. It must
// be called with Client.Mu held.
func (r *sharings) met(as string) *sharing {
	s := r.noted(as)
	s.seen = time.Now()
	return s
}

// noted returns the record of a lock, and makes one if necessary. It must be called with
// Client.Mu held.
func (r *sharings) noted(as string) *sharing {
	s := r.of[as]
	if s == nil {
		s = new(sharing)
		r.of[as] = s
		r.client.sweepWithin(sharedFor)
	}
	return s
}

// lasts returns how long the record of a lock is still useful. It must be called with
// Client.Mu held.
func (s *sharing) lasts(now time.Time) time.Duration {
	return max(sharedFor-now.Sub(s.seen), sharedFor-now.Sub(s.rival), spinSliceUnseen+spinSlice-now.Sub(s.freed))
}

// taken notes that one of Redisson's threads has the lock. If it has had it since it was last seen, what was heard meanwhile was no
// release of this lock. It must be called with Client.Mu held.
func (r *sharings) taken(as string, by *script.Holder) {
	s := r.met(as)
	s.after, s.from, s.vain, s.keep = time.Time{}, time.Time{}, 0, time.Time{}
	if until := s.seen.Add(by.TTL); by.Owner != s.holder || until.Sub(s.until) > time.Millisecond { // the precision of Redis' answer
		s.holder, s.until, s.heard = by.Owner, until, 0
	}
}

// freedByThem notes a message by which one of Redisson's threads seems to have released a
// lock. It must be called with Client.Mu held.
func (s *sharing) freedByThem() {
	s.seen = time.Now()
	s.heard++
	switch {
	case s.heard <= max(hearsay, s.due):
		s.after, s.from, s.vain = time.Time{}, time.Time{}, 0
		if s.theirs = min(s.theirs+1, mostTheirs); s.theirs < s.due { // they have one more turn
			s.from, s.after = s.seen, s.seen.Add(chance)
		}
	case !s.from.IsZero():
		s.after, s.from = s.from.Add(leastChance), time.Time{}
	}
}

// leaveOpen leaves a lock that is free to Redisson's threads for so long, so often in a row; 0 if that is not known. It
// must be called with Client.Mu held.
func (r *sharings) leaveOpen(as string, long time.Duration, times int) {
	s := r.met(as)
	if times > 0 {
		s.due = min(times, mostTheirs)
	}
	now := time.Now()
	leaves := now.Before(s.after)
	if now.Before(s.keep) || leaves && s.twice {
		return // others may have had it meanwhile, and have left it again. But anybody may say so, and again and again
	}
	s.from, s.after, s.twice, s.theirs = now, now.Add(long), leaves, 0
}

// announced handles a message on the channel on which Redisson announces releases.
// mortise's own messages say whether the release has left the lock to Redisson's threads;
// any other message may be by one of these threads, where they take part.
func (r *sharings) announced(as, message string) {
	r.client.Mu.Lock()
	defer r.client.Mu.Unlock()
	switch m := script.ParseRelease(message); {
	case m.Left:
		r.leaveOpen(as, chance, m.Times)
	case !m.Ours:
		if s := r.shared(as); s != nil {
			s.freedByThem()
		}
	}
}

// heldBy notes who was seen to have a lock. It must be called with Client.Mu held.
func (qs *Queues) heldBy(k *lease.Lock, by *script.Holder) {
	as, r := sharedAs(k), &qs.sharing
	spins := k.Traits().Pause != nil
	switch {
	case by.Owner == "" && by.Count == 0 && takesTurns(k):
		r.leaveOpen(as, min(by.TTL, chance), 0)
	case script.IsMortise(by.Owner):
		if s := r.shared(as); s != nil {
			s.from = time.Time{} // another client knows whether they used the chance
		}
		if spins {
			r.noted(as).rival = time.Now()
		}
	case spins:
		r.spun(as, by)
	default:
		r.taken(as, by)
	}
}

// had notes that this client has acquired a lock. It must be called with Client.Mu held.
func (qs *Queues) had(l *lease.Lease) {
	r := &qs.sharing
	if len(r.of) == 0 && l.Traits().Pause == nil {
		return
	}
	now := time.Now()
	l.Since = qs.Time(now)
	as := sharedAs(l.Lock)
	if s := r.of[as]; s != nil && !s.freed.IsZero() {
		s.spinsOn(now)
	}
	r.had(as, SiteOf(l.Lock).hearsReleases())
}

// had notes that this client has acquired a lock: if it was left to Redisson's threads, and the client would have heard their
// release, they did not come. It must be called with Client.Mu held.
func (r *sharings) had(as string, hears bool) {
	if s := r.shared(as); s != nil && !s.from.IsZero() {
		if s.from = (time.Time{}); !hears {
			return
		}
		if s.vain++; s.vain > 2 {
			s.keep = time.Now().Add(min(keepLeast<<min(s.vain-3, 10), keepMost))
		}
	}
}

// AskedForPermits notes the answer to a request for permits.
func (s Site) AskedForPermits(as string, got bool) {
	c := s.Queues
	c.Mu.Lock()
	defer c.Mu.Unlock()
	s.heard()
	c.sharing.permits(as, got)
	if got {
		c.sharing.had(as, true)
	}
}

// permits notes an answer to a request for permits. Who has a permit cannot be known, so what is heard until the next one
// counts as releases by Redisson's threads, and a refusal proves nothing: others of mortise's may have been faster. It must be
// called with Client.Mu held.
func (r *sharings) permits(as string, got bool) {
	s := r.shared(as)
	if s == nil {
		return
	}
	if s.heard = 0; !got {
		s.from = time.Time{}
	}
}

// After returns until when others have the first chance to acquire a lock. It must be
// called with Client.Mu held.
func (qs *Queues) After(k *lease.Lock) (t time.Time) {
	if r := &qs.sharing; len(r.of) > 0 {
		return r.after(sharedAs(k))
	}
	return t
}

// after is [Queues.After] by the name of the record.
func (r *sharings) after(as string) (t time.Time) {
	if s := r.of[as]; s != nil {
		return s.after
	}
	return t
}

// shares reports whether Redisson's threads take part in a lock that is about to be
// released, and whether the client need not leave it to them all the same.
func (qs *Queues) shares(k *lease.Lock) (shared, keep bool) {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	r := &qs.sharing
	if len(r.of) == 0 {
		return false, false
	}
	return r.shares(sharedAs(k))
}

// share notes in t what a release of k is to know of Redisson's threads, and what the next client is to know.
func (qs *Queues) share(k *lease.Lock, t *script.Turns) {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	if len(qs.sharing.of) == 0 {
		return
	}
	as := sharedAs(k)
	if t.Shared, t.Keep = qs.sharing.shares(as); t.Shared {
		s := qs.sharing.of[as]
		t.Vain, t.KeepFor = s.vain, time.Until(s.keep)
	}
}

// shares is [Queues.shares] by the name of the record. It must be called with Client.Mu held.
func (r *sharings) shares(as string) (shared, keep bool) {
	s := r.shared(as)
	return s != nil, s != nil && s.goesOn()
}

// learn notes what the client that had a lock before knows of Redisson's threads: a message that grants the lock says so, or, if it does not, one that
// anybody may have sent. It must be called with Client.Mu held.
func (r *sharings) learn(as string, m *script.TurnMessage) {
	if !m.Shared {
		return
	}
	s := r.met(as)
	if s.vain = min(m.Vain, mostHearsay); m.Granted != "" {
		s.vain, s.keep = m.Vain, time.Now().Add(m.KeepFor)
	}
}

// goesOn reports whether the client need not leave the lock to others now. It must
// be called with Client.Mu held.
func (s *sharing) goesOn() bool {
	if s.theirs > max(s.due, 1) {
		s.theirs--
		return true
	}
	return time.Now().Before(s.keep)
}

// left notes that a release of this client has left the lock to Redisson's
// threads.
func (qs *Queues) left(k *lease.Lock) {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	qs.sharing.leaveOpen(sharedAs(k), chance, 0)
}

// inSlice reports whether l may be handed off inside the process although others may take
// part in the lock. It must be called with Client.Mu held.
func (qs *Queues) inSlice(l *lease.Lease) bool {
	r := &qs.sharing
	if len(r.of) == 0 {
		return true
	}
	s := r.shared(sharedAs(l.Lock))
	return s == nil || qs.Time(time.Now())-l.Since < sliceTime || s.goesOn()
}

// spinOn notes the release of a spin lock. Its waiters elsewhere retry once in a while,
// and get no message. So the lock is left to them at the end of a slice, unless it was
// free for as long during the slice.
func (qs *Queues) spinOn(k *lease.Lock) {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	as, now := sharedAs(k), time.Now()
	s, slice, began := qs.sharing.shared(as), spinSlice, now
	if s == nil {
		s = qs.sharing.noted(as)
		slice = s.spinSliceAlone(now)
		if l := qs.HeldAt(k.Place()); l != nil {
			began = now.Add(l.Since - qs.Time(now)) // one hold may be longer than a slice
		}
	}
	s.freed = now
	if s.began.IsZero() {
		s.began, s.idle = began, 0
	}
	if now.Before(s.keep) || now.Sub(s.began) < slice {
		return
	}
	if s.began, s.from = (time.Time{}), (time.Time{}); slice == spinSlice {
		s.from = now
	}
	s.after = now.Add(spinSlice/2 + dice.N(spinSlice))
}

// spinSliceAlone returns how long the client has a spin lock in one slice while no thread
// of Redisson's was seen to have it. It must be called with Client.Mu held.
func (s *sharing) spinSliceAlone(now time.Time) time.Duration {
	if now.Sub(s.rival) < sharedFor {
		return spinSliceRival
	}
	return spinSliceUnseen
}

// spinsOn notes that the client has a spin lock again. It must be called with
// Client.Mu held.
func (s *sharing) spinsOn(now time.Time) {
	if s.idle += now.Sub(s.freed); s.idle >= spinSlice {
		s.began = time.Time{}
	}
}

// spun notes that one of Redisson's threads has a spin lock. If it was left to them, their
// slice begins. It must be called with Client.Mu held.
func (r *sharings) spun(as string, by *script.Holder) {
	open := r.of[as] != nil && !r.of[as].from.IsZero()
	r.taken(as, by)
	if s := r.of[as]; open {
		s.after = time.Now().Add(spinSlice)
	}
}

// spinPause bounds the pause of w, the head of its queue, if a waiter behind it listens
// for releases: only the head receives notifications.
func (w *Waiter) spinPause(d time.Duration) time.Duration {
	w.client.Mu.Lock()
	defer w.client.Mu.Unlock()
	if q := w.in; q != nil && q.spinning < q.length {
		return min(d, outcome.Poll)
	}
	return d
}

// IsShared reports whether Redisson's threads are known to take part in the lock, whose clients take turns.
func IsShared(k *lease.Lock) bool {
	qs := QueuesOf(k.Client())
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	return takesTurns(k) && qs.sharing.shared(sharedAs(k)) != nil
}

// OthersFirst returns until when Redisson's threads that listen to the channel have the first chance.
func (s Site) OthersFirst(channel string) time.Time {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	return s.Queues.sharing.after(channel)
}

// ReleaseSerial returns the serial number of the next release of permits, or 0 if they are not to be left to Redisson's threads.
func (qs *Queues) ReleaseSerial(channel string) int64 {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	if _, keep := qs.sharing.shares(channel); keep {
		return 0
	}
	return qs.Conn().NextRelease()
}

// LeftPermits notes that a release of permits has left them to Redisson's threads, which listen to channel.
func (qs *Queues) LeftPermits(channel string) {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	qs.sharing.leaveOpen(channel, chance, 0)
}

// hearsReleases reports whether the client listens to the releases of the place by Redisson's threads. It must be called with
// Client.Mu held.
func (s Site) hearsReleases() bool {
	if q := s.queue(); q != nil && q.listener != nil {
		return true
	}
	return s.Queues.idle[s.Place].all != nil
}

// LeftFor returns for how long k is left to Redisson's threads, as far as the client knows; 0 if it is not.
func LeftFor(k *lease.Lock) time.Duration {
	qs := QueuesOf(k.Client())
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	return max(time.Until(qs.After(k)), 0)
}
