package mortisetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// History records what clients asked for, what they got and until when, and checks that
// it is what a correct service of locks could have given. It is for tests, of mortise and
// of the programs that use it:
//
//	history := mortisetest.NewHistory()
//	// in many goroutines, with different clients:
//	hold, lctx, err := history.Lock(ctx, "worker 1", client.Lock("report"))
//	…
//	hold.Unlock()
//	// at the end:
//	history.Check(t)
//
// What is checked:
//
//   - Locks: no two owners have one at once. Lock, SpinLock, FencedLock and FairLock of one
//     name are one lock. Readers of an RWLock exclude writers, and GroupLocks each other
//     where their values overlap. An owner may have a lock more than once, and has it until
//     it has released as often. Two clients are two owners, also with the context of one.
//   - Permits: no more are held, or taken, at once than exist.
//   - Order: a FairLock serves requests in the order in which they were made, and so does a
//     client with those of its own goroutines, for a Lock and a PermitSemaphore; see
//     [History.Disturbed].
//   - Fencing tokens, and the numbers of terms: each is larger than all before it.
//   - Refusals: TryLock says that another owner has the lock only if one may have it. So two
//     names that are one lock in Redis are found, even if nobody has them at once.
//   - Elections: no two terms at once, and an observer sees only leaders and values that
//     were, in their order.
//   - Latches: they open after as many counts as were set, and not before. Wait does not find
//     one closed that is open, and does not go on for longer than a Lease then.
//   - Barriers: those that pass do so with as many others, and none before the last has
//     arrived.
//
// Each name is checked by itself, by the linearizability checker Porcupine. Its work grows
// exponentially with the calls that are under way at the same time, so use at most ten
// clients or so for one name.
//
// A call whose outcome is unknown may or may not have had its effect. A hold ends, for the
// history, when its release begins, and when its context ends with the loss of the lock: a
// holder that goes on after that breaks the rules, not the lock.
//
// A story calls an owner by the client and a number, such as "worker 1#7". Where Redis knows it by
// an id, the story has that, too: it is what [mortise.HeldError], [mortise.Hold.Owner] and
// "mortise show" say.
//
// The methods of a History are safe for concurrent use. Times in its stories are those
// since NewHistory, and in a bubble of [testing/synctest] they are virtual.
type History struct {
	// Lease is the longest time for which Redis may keep what a client has left behind: a
	// lock that was not released, or an arrival at a barrier whose party gave up. Set it,
	// before anything is recorded, to the TTL of the clients and what their network may
	// delay. Default 30 s.
	Lease time.Duration

	// Latency is how long a request may take to arrive at Redis. The order of requests that
	// were made within that time of each other is not checked, nor that of requests made at
	// one time. Default 0, which is right in virtual time.
	Latency time.Duration

	start time.Time

	mu        sync.Mutex // guards what follows, and all records
	seq       int64
	owners    map[party]string // names for stories
	holdings  []*holding
	calls     []*call
	forgotten []event
	disturbed []*disturbance
}

// NewHistory returns an empty history whose time begins now.
func NewHistory() *History {
	return &History{Lease: 30 * time.Second, start: time.Now(), owners: map[party]string{}}
}

// disturbance is a time in which the link of a client, or of all, was bad.
type disturbance struct {
	client   string
	from, to instant
}

// instant is a place in the order of what was recorded. Much can happen at one time in a
// bubble, so the order of records counts as well.
type instant struct {
	at  time.Duration
	seq int64 // 0 is before all that was recorded at this time
}

// never is after all that was recorded.
var never = instant{at: 1<<63 - 1}

func (i instant) before(j instant) bool {
	return i.at < j.at || i.at == j.at && i.seq < j.seq
}

func (i instant) later(d time.Duration) instant {
	if i == never {
		return never
	}
	return instant{i.at + d, i.seq}
}

func later(i, j instant) instant {
	if i.before(j) {
		return j
	}
	return i
}

func earlier(i, j instant) instant {
	if j.before(i) {
		return j
	}
	return i
}

// now returns the next instant. h.mu must be held.
func (h *History) now() instant {
	h.seq++
	return instant{time.Since(h.start), h.seq}
}

// since returns the beginning of the time t. A loss is recorded a moment after it happened,
// when others may have been recorded already.
func (h *History) since(t time.Time) instant { return instant{at: t.Sub(h.start)} }

// Disturbed tells the history that the link between some clients and Redis, or between all
// clients and Redis if there are none, does something that may cost a waiter its place,
// until the function is called that it returns: it loses or delays requests, replies or
// messages. The order of requests that are made or served in that time is not checked, nor
// whether a waiter of a latch learns in time that it is open.
func (h *History) Disturbed(clients ...string) (calm func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(clients) == 0 {
		clients = []string{""}
	}
	at := h.now()
	var these []*disturbance
	for _, client := range clients {
		these = append(these, &disturbance{client, at, never})
	}
	h.disturbed = append(h.disturbed, these...)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		at := h.now()
		for _, d := range these {
			d.to = earlier(d.to, at)
		}
	}
}

// Check fails the test if the history is not a correct one, with a short story for each
// promise that was broken: what remains of the history after all has been removed that does
// not matter. Call it after the calls that it records have returned; one that has not is
// regarded as still waiting.
func (h *History) Check(t testing.TB) {
	t.Helper()
	for _, p := range h.problems() {
		t.Error(p.String() + h.advice())
	}
}

// advice is what a test may have forgotten.
func (h *History) advice() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.forgotten) > 0 || len(h.disturbed) > 0 {
		return ""
	}
	return "\n\t(If the server has lost data, or a link was bad, the history has to be told: see Forgot and Disturbed.)"
}

// Err returns what Check would report, as one error, or nil.
func (h *History) Err() error {
	var texts []string
	for _, p := range h.problems() {
		texts = append(texts, p.String())
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "\n"))
}

// String tells the whole history, where the story of Check is not enough.
func (h *History) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []item
	for _, r := range h.holdings {
		all = append(all, item{at: r.begin, text: h.story(r)})
	}
	for _, c := range h.calls {
		all = append(all, item{at: c.begin, text: c.story()})
	}
	slices.SortFunc(all, func(a, b item) int { return cmp.Compare(a.at.seq, b.at.seq) })
	var b strings.Builder
	for _, i := range all {
		fmt.Fprintln(&b, i.text)
	}
	return b.String()
}

// Len returns how many requests and calls have been recorded, and how many of them have led
// to a hold or succeeded. A test in which little happens shows nothing.
func (h *History) Len() (recorded, succeeded int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.holdings {
		if r.granted {
			succeeded++
		}
	}
	for _, c := range h.calls {
		if c.err == nil && c.over {
			succeeded++
		}
	}
	return len(h.holdings) + len(h.calls), succeeded
}

// inDoubt reports whether a call that failed may have had its effect.
func inDoubt(err error) bool {
	return err != nil && (errors.Is(err, mortise.ErrUnknownOutcome) || !errors.Is(err, mortise.ErrInvalid) && !errors.Is(err, mortise.ErrUnreachable) &&
		!errors.Is(err, mortise.ErrNoPermits))
}
