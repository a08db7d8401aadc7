package mortisetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	scripts "github.com/mortise-go/mortise/internal/script"
)

// planned is a fault of the next n calls of a script.
type planned struct {
	script string
	n      int
	fault  Fault
}

// Next makes the next n calls of a script suffer a fault, with "" the next of any script. Calls that
// an earlier Next has claimed do not count. Where OnCall and Chaos would have one, too, only this one occurs.
//
// A Lock runs "lock_acquire", "lock_renew" and "lock_release", among others; the names of other kinds
// are like these. Next panics, with the names that there are, if no script of mortise is called so, and
// if n is below 1. For scripts of your own use [Link.OnCall].
func (l *Link) Next(script string, n int, f Fault) {
	if script != "" {
		needScript(script)
	}
	if n < 1 {
		panic(fmt.Sprintf("mortisetest: the next %d calls: there must be at least one", n))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = append(l.next, planned{script, n, f})
}

// needScript panics unless name is that of a script of mortise, or what else counts as one.
func needScript(name string) {
	all := append(scripts.Names(), "fencing", "SCAN")
	if slices.Contains(all, strings.TrimSuffix(name, "_durably")) {
		return
	}
	slices.Sort(all)
	panic(fmt.Sprintf("mortisetest: no script of mortise is called %q; there are %s", name, strings.Join(all, ", ")))
}

// OnCall has f say what happens to each call; nil ends that. F is called before a call is sent,
// with the name of the script, as in [Link.Calls]. It may be called by several goroutines at once,
// and must not block or call methods of the link.
func (l *Link) OnCall(f func(script string) Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onCall = f
}

// fault returns what happens to the next call of a script. It must be called with l.mu held.
func (l *Link) fault(script string) (f Fault) {
	for i := range l.next {
		p := &l.next[i]
		if p.script != "" && p.script != script {
			continue
		}
		f = p.fault
		if p.n--; p.n <= 0 {
			l.next = slices.Delete(l.next, i, i+1)
		}
		return f
	}
	if l.onCall != nil {
		f = l.onCall(script)
	}
	if f == (Fault{}) && l.plan != nil {
		f = l.plan.call(l, script)
	}
	return f
}

// Partition cuts the client off, until Heal: calls and replies are lost, and the client hears
// nothing until its context or its timeout ends. Messages are lost. The server still counts the
// client among the subscribers of its channels, as it does until it notices.
func (l *Link) Partition() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partition(byTest)
}

// author is a set of the callers that have begun an outage. It lasts until all of them have ended it.
type author uint8

const (
	byTest author = 1 << iota
	byChaos
	byAnyone = byTest | byChaos
)

func (l *Link) partition(by author) {
	if l.partitioned == 0 {
		l.hits[WasPartitioned]++
	}
	l.partitioned |= by
}

func (l *Link) isPartitioned() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.partitioned != 0
}

// Heal ends a partition. The connections of before are broken: subscriptions are made anew.
func (l *Link) Heal() { l.heal(byAnyone) }

func (l *Link) heal(by author) {
	l.mu.Lock()
	was := l.partitioned
	l.partitioned &^= by
	healed := was != 0 && l.partitioned == 0
	l.mu.Unlock()
	if healed {
		l.renew(0)
	}
}

// Freeze holds back all that the client sends and all that it would receive, until Thaw: calls,
// replies and messages, in their order; nothing is lost. A call that the client has given up
// meanwhile runs as well, as a late copy. New calls of the client wait, too.
//
// This is how a client that is stopped (SIGSTOP, a long pause of its machine) looks to others. It
// is not how it looks to the client: the goroutines of the test's process go on, and so do its
// timers, so the client gives up waiting, and loses its locks, on time, where one that was really
// stopped notices only afterwards. To test that, stop a real process.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeze(byTest)
}

func (l *Link) freeze(by author) {
	if l.frozen == nil {
		l.frozen = make(chan struct{})
		l.hits[WasFrozen]++
	}
	l.frozenBy |= by
}

// Thaw ends a freeze: what was held back goes on its way.
func (l *Link) Thaw() { l.thaw(byAnyone) }

func (l *Link) thaw(by author) {
	for {
		l.mu.Lock()
		if l.frozenBy &^= by; l.frozenBy != 0 {
			l.mu.Unlock()
			return
		}
		held := l.held
		l.held = nil
		if len(held) == 0 { // else others may come after them, and must not overtake
			if l.frozen != nil {
				close(l.frozen)
				l.frozen = nil
			}
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for _, f := range held {
			f()
		}
	}
}

// whenThawed runs f, at once or when the link thaws.
func (l *Link) whenThawed(f func()) {
	l.mu.Lock()
	if l.frozen != nil {
		l.held = append(l.held, f)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	f()
}

// Cut breaks the connections of the client. Calls in flight fail, with an unknown outcome, though
// their scripts may run. Subscriptions are made anew after the pause, and confirmed anew; messages
// are lost until then, and the server does not count the client among the subscribers, once it has
// read the end of the connection, as synctest.Wait awaits. New calls find new connections.
func (l *Link) Cut(pause time.Duration) {
	l.mu.Lock()
	l.hits[WasCut]++
	l.breakCalls()
	l.mu.Unlock()
	l.renew(pause)
}

func (l *Link) renew(pause time.Duration) {
	for _, s := range l.subscriptions() {
		s.renew(pause)
	}
}

// Calm ends all faults of the link: partition and freeze, what was planned with Next, OnCall,
// OnMessage and Chaos. What is under way still arrives.
func (l *Link) Calm() {
	l.mu.Lock()
	l.next, l.onCall, l.onMessage, l.plan = nil, nil, nil, nil
	l.mu.Unlock()
	l.Heal()
	l.Thaw()
}
