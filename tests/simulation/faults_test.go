package simulation

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/mortisetest"
)

// What can happen to a client, and to the server. Crash is the end: its link is dead for ever.
var (
	clientFaults = []string{"partition", "freeze", "cut", "crash", "close", "lose replies", "forge"}
	dataFaults   = []string{"fail over", "evict", "restart", "jump forward", "jump back"}
)

func (w *world) clientFault(c *client, e event, over <-chan struct{}) {
	select {
	case <-time.After(e.at):
	case <-over:
		return
	}
	w.count(e.what)
	calm := w.history.Disturbed(c.name)
	defer calm()
	wait := func() {
		select {
		case <-time.After(e.lasts):
		case <-over:
		}
	}
	switch e.what {
	case "partition":
		c.link.Partition()
		wait()
		c.link.Heal()
	case "freeze":
		c.link.Freeze()
		wait()
		c.link.Thaw()
	case "cut":
		c.link.Cut(e.lasts / 4)
		wait()
	case "crash":
		c.link.Partition()
		<-over
	case "close":
		w.known(c.close())
		<-over
	case "lose replies":
		c.link.Next("", 3, mortisetest.Fault{Lose: mortisetest.Reply})
		wait()
	case "forge":
		for _, channel := range c.link.Channels() {
			c.link.Forge(channel, "0")
			c.link.Forge(channel, "nonsense")
		}
		wait()
	}
}

func (w *world) serverFault(ctx context.Context, last *client, e event) {
	time.Sleep(e.at)
	w.count(e.what)
	switch e.what {
	case "fail over":
		w.server.FailOver(e.n)
	case "restart":
		w.server.Restart()
	case "evict":
		w.evict(e.n)
	case "jump forward":
		w.server.Jump(e.by)
	case "jump back":
		w.server.Jump(-e.by)
		w.add("set back", int(e.by.Milliseconds()))
	case "loading":
		calm := w.history.Disturbed()
		defer calm()
		w.server.Refuse(mortisetest.Loading)
		time.Sleep(time.Second)
		w.server.Refuse("")
		time.Sleep(time.Second)
		return
	}
	w.lost(ctx, last, e)
}

// evict removes one of the keys.
func (w *world) evict(n int) {
	l := w.server.Link()
	defer l.Close()
	var keys []string
	_ = l.Scan(context.Background(), "*", func(page []string) error { keys = append(keys, page...); return nil })
	if len(keys) == 0 {
		return
	}
	slices.Sort(keys)
	key := keys[n%len(keys)]
	w.server.Evict(key)
	if strings.HasPrefix(key, "mortise:fair_waiters:") { // the dead are taken for Redisson's until their deadlines
		w.mu.Lock()
		w.unlisted = true
		w.mu.Unlock()
	}
	if strings.Contains(key, " permits") { // the rest of the numbers does not fit any more
		w.mu.Lock()
		defer w.mu.Unlock()
		w.torn = true
	}
}

// lost is what follows a loss of data: an operator sets again what is missing, and the holders of what
// is gone are told.
func (w *world) lost(ctx context.Context, last *client, e event) {
	at, holders := time.Now(), w.holders()
	w.mu.Lock()
	w.lapsed = at
	torn := w.torn
	w.mu.Unlock()
	for _, name := range names {
		s := last.PermitSemaphore(name + " permits")
		if _, err := s.TrySetPermits(ctx, 3); err != nil {
			w.fail("setting permits: %v", err)
		}
		if torn {
			w.known(s.SetPermits(ctx, 3))
		}
		_, err := last.Semaphore(name+" semaphore").TrySetPermits(ctx, 3)
		w.known(err)
	}
	time.Sleep(time.Until(at.Add(lease/3 + notice)))
	w.checkTold(e, at, holders, true)
	time.Sleep(time.Until(at.Add(lease + notice)))
	w.checkTold(e, at, holders, false)
}

// notice is what the watchdog may take beyond a third of a lease to tell a holder of its loss, if nothing
// keeps its client from Redis.
const notice = 100 * time.Millisecond

// grip is a hold that can be looked up in Redis.
type grip struct {
	hold *mortisetest.Hold
	key  string
	c    *client

	fixed bool // it may have a lease that is not renewed: then its holder is told when that ends
}

// holders returns the holds that are valid.
func (w *world) holders() []grip {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.grips), func(g grip) bool { return !g.hold.Valid() })
}

// checkTold fails if a holder from before a loss of data does not know of it. Calm asks only for
// clients that nothing keeps from Redis, and for leases that are renewed.
func (w *world) checkTold(e event, at time.Time, holders []grip, calm bool) {
	w.mu.Lock()
	again := w.lapsed != at
	w.mu.Unlock()
	if again {
		return // what was lost later need not have been told yet
	}
	for _, g := range holders {
		switch {
		case calm && (!g.c.calm || g.fixed):
		case !g.hold.Valid():
			w.count("holders told")
		case !w.inRedis(g) && g.hold.Valid():
			w.fail("%v after the fault (%v) the holder of %q at %s does not know that Redis has lost it", time.Since(at), e, g.key, g.c.name)
		default:
			w.count("holds that stayed")
		}
	}
}

// inRedis reports whether Redis knows of a hold.
func (w *world) inRedis(g grip) bool {
	if permits := g.hold.Permits(); len(permits) > 0 {
		for _, p := range permits {
			id, _ := hex.DecodeString(p)
			if v, err := w.server.Do("ZSCORE", keyspace.PermitExpiries(g.key), string(id)); err != nil || v.Str() == "" {
				return false
			}
		}
		return true
	}
	v, err := w.server.Do("HKEYS", g.key)
	for i := range v.Len() {
		if strings.HasPrefix(v.At(i).Str(), g.hold.Owner()) {
			return true
		}
	}
	return err != nil
}
