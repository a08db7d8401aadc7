package lease

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/watchdog"
)

// renewer is what the watchdog of a client calls.
type renewer struct {
	client *Client
	clocks *watchdog.Clocks
}

func newRenewer(c *Client) *renewer {
	return &renewer{c, watchdog.NewClocks(c.born, min(time.Second, c.config.TTL/20))}
}

// shard groups leases by server and durability, so that waiting for replicas does not delay
// other renewals.
func (r *renewer) shard(w *watchdog.Lease) string {
	l := w.Of.(*Lease)
	shard := r.client.driver.Shard(l.name)
	if d := l.options.Durability; !d.None() {
		shard += " " + d.String()
	}
	return shard
}

// lost ends a lease that the watchdog has lost.
func (r *renewer) lost(w *watchdog.Lease, reason watchdog.Reason, err error) {
	l := w.Of.(*Lease)
	l.end(l.watchdogLoss(reason, err))
}

// renew renews the leases of one shard in one batch: one script for each group of leases
// that share a slot.
func (r *renewer) renew(ctx context.Context, leases []*watchdog.Lease) []watchdog.Answer {
	c := r.client
	groups, members := r.group(leases)
	answers := make([]watchdog.Answer, len(leases))
	results := []script.RenewResult(nil)
	server := c.driver.Shard(leases[0].Of.(*Lease).name)
	start := time.Now()
	if d := leases[0].Of.(*Lease).options.Durability; d.None() { // the same for a whole shard
		results = script.Renew(ctx, c.driver, groups)
	} else {
		results = c.replicas.renewAndWait(ctx, d, groups)
	}
	end := time.Now()
	for g, result := range results {
		if result.Err == nil {
			r.readClock(server, result.Clock, start, end)
		}
		for j, i := range members[g] {
			switch {
			case result.Err != nil:
				answers[i] = watchdog.Answer{State: watchdog.Failed, Err: r.failure(ctx, leases[i], result.Err)}
			case result.States[j] == script.Renewed:
				answers[i] = watchdog.Answer{State: watchdog.Renewed}
			case result.States[j] == script.Taken:
				answers[i] = watchdog.Answer{State: watchdog.Taken, Err: r.clockJump(server, leases[i])}
			default:
				answers[i] = watchdog.Answer{State: watchdog.Gone, Err: r.clockJump(server, leases[i])}
			}
		}
	}
	c.renewed(leases, answers, c.margins(leases))
	return answers
}

// failure returns why a renewal that has ended with err has failed. If ctx is to blame, what Redis or the
// network has said to the one before says more.
func (r *renewer) failure(ctx context.Context, w *watchdog.Lease, err error) error {
	if Expired(ctx) {
		if before := r.client.watchdog.Failure(w); before != nil && driver.ClassOf(before) != driver.Unknown {
			return before
		}
	}
	return err
}

// readClock records what a server's clock showed between start and end, and calls
// OnClockJump if it jumped.
func (r *renewer) readClock(server string, now time.Duration, start, end time.Time) {
	c, jump := r.client, r.clocks.Read(server, now, start, end)
	if tell := c.config.OnClockJump; tell != nil && jump != 0 {
		c.Background(func(context.Context) { tell(server, jump) })
	}
}

// clockJump returns the error for the forward jump of the server's clock that may have ended
// lease w, which Redis no longer has, or nil. Such a jump was noticed after the lease was
// last confirmed.
func (r *renewer) clockJump(server string, w *watchdog.Lease) error {
	if jump := r.clocks.Ahead(server, w.Of.(*Lease).confirmed()); jump != 0 {
		return r.client.errors.ClockJump(server, jump)
	}
	return nil
}

// renewWords is the maximum number of arguments of the renewals in one script.
// Most renewals have a few; that of a GroupLock has one for each value.
const renewWords = 2000

// group groups the leases that one script may renew together: those of one
// kind, on one server and, on a cluster, in one slot.
func (r *renewer) group(leases []*watchdog.Lease) (groups [][]script.Renewal, members [][]int) {
	type together struct {
		script *driver.Script
		slot   uint16
	}
	last := make(map[together]int) // the group that still has room
	var words []int                // number of arguments, for each group
	cluster := r.client.conn.Cluster()
	for i, w := range leases {
		l := w.Of.(*Lease)
		ttl := l.remaining(w.Terms.TTL)
		if !w.Extends() {
			ttl = l.remainingTTL()
		}
		one := l.ops.Renewal(l.id, ttl)
		one.Most, one.Count = l.maxTTLAndCount()
		t := together{script: one.Script}
		if cluster {
			t.slot = keyspace.Slot(one.Key)
		}
		g, ok := last[t]
		if !ok || len(groups[g]) == script.RenewBatch || words[g]+len(one.Args) > renewWords {
			room := 1
			if !cluster { // on a cluster each of thousands of slots may have a lease or two
				room = min(len(leases)-i, script.RenewBatch)
			}
			g = len(groups)
			groups, members, words = append(groups, make([]script.Renewal, 0, room)), append(members, make([]int, 0, room)), append(words, 0)
			last[t] = g
		}
		groups[g] = append(groups[g], one)
		words[g] += len(one.Args)
		members[g] = append(members[g], i)
	}
	return groups, members
}
