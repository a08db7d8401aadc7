//go:build interop

package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

var fairCrowdTrials = []trial{
	{claim{"FairLock", "crowds of both sides keep the order", "Go <-> Java"}, fairCrowds},
	{claim{"FairLock", "hand-overs between the sides are prompt", "Go <-> Java"}, fairHandOvers},
}

func TestFairCrowds(t *testing.T) { everywhere(t, about("FairLock", fairCrowdTrials)) }

// fairCrowds looks at every command that the scripts of both sides run.
func fairCrowds(t *testing.T, w *world) {
	const total, last = 600, "that was all"
	f := w.newField(t, "fair-crowds")
	f.startJava(t, 4, 0, total)
	f.startGo(t, 3, 4, 0, total)
	w.awaitQueue(t, f.name, 4+3*4)
	order := fairLine{lock: f.name, holder: f.gate.Owner(), waiting: w.fairQueue(t, f.name)}
	monitor, err := redistest.Dial(w.redis().Addr(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer monitor.Close()
	if _, err := monitor.Do("MONITOR"); err != nil {
		t.Fatal(err)
	}
	mustUnlock(t, f.gate)
	f.finish(t, total)
	w.redis().Must(t, "ECHO", last)
	for {
		line, err := monitor.Receive(patience)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line.(string), last) {
			break
		}
		_, command, ok := strings.Cut(line.(string), "] ")
		if !ok {
			t.Fatalf("MONITOR says %q", line)
		}
		if err := order.run(strings.Fields(strings.ReplaceAll(command, `"`, ""))); err != nil {
			t.Fatalf("after %d acquisitions, at %s: %v", order.had, line, err)
		}
	}
	if want := total + 4 + 3*4; order.had != want { // at the end each had it once more, and found the total
		t.Errorf("the lock changed hands %d times, want %d", order.had, want)
	}
}

// fairLine is a fair lock and its queue, as the commands make them. It refuses
// what a fair lock must not do.
type fairLine struct {
	lock    string
	holder  string
	waiting []string
	called  string // taken out of the queue, to have the lock
	had     int    // how often somebody got the lock
}

func (l *fairLine) run(command []string) error {
	if len(command) < 2 {
		return nil
	}
	switch queue := "redisson_lock_queue:" + braced(l.lock); strings.ToLower(command[0]) + " " + command[1] {
	case "rpush " + queue:
		l.waiting = append(l.waiting, command[2])
	case "lrem " + queue:
		if slices.Contains(l.waiting, command[3]) {
			return fmt.Errorf("%s is taken out of the queue", command[3])
		}
	case "lpop " + queue:
		return l.call()
	case "hset " + l.lock, "hincrby " + l.lock:
		return l.acquire(command[2])
	case "lpush " + queue: // no subscriber learned that it has the lock
		l.waiting, l.called = append([]string{command[2]}, l.waiting...), ""
	case "hdel " + l.lock:
		if command[2] == l.holder {
			l.holder = ""
		}
	case "del " + l.lock:
		l.holder = ""
	}
	return nil
}

// call takes the first waiter out of the queue.
func (l *fairLine) call() error {
	first := l.waiting[0]
	l.waiting = l.waiting[1:]
	switch {
	case l.called != "":
		return fmt.Errorf("%s was taken out of the queue, and did not have the lock", l.called)
	case first != l.holder:
		l.called = first
	}
	return nil
}

// acquire makes by the holder.
func (l *fairLine) acquire(by string) error {
	if l.holder != "" {
		return nil // it releases a hold
	}
	if by != l.called && (l.called != "" || len(l.waiting) > 0 && l.waiting[0] != by) {
		return fmt.Errorf("%s has the lock, and it is the turn of %q or %q", by, l.called, l.waiting)
	}
	l.holder, l.called = by, ""
	l.had++
	return nil
}

// fairHandOvers: if one of them took a poll, half of its kind would.
func fairHandOvers(t *testing.T, w *world) {
	const name, waiters = "hand-overs", 40
	clients := []*mortise.Client{w.client(t, longLease), w.client(t, longLease)}
	gate, _ := mustLock(t, w.lock(clients[0], name))
	var gos []<-chan gained
	var javas []*thread
	var replies []*reply
	for i := range waiters {
		if i%2 == 0 {
			javas = append(javas, w.thread(fmt.Sprint("alternate", i)))
			replies = append(replies, javas[i/2].lockLater(name, 0))
		} else {
			gos = append(gos, lockLater(t.Context(), w.lock(clients[i/2%2], name)))
		}
		w.awaitQueue(t, name, i+1)
	}
	var toJava, toGo []time.Duration
	released := time.Now()
	mustUnlock(t, gate)
	for i := range javas {
		at := replies[i].must(t).received
		toJava = append(toJava, at.Sub(released))
		released = time.Now()
		javas[i].unlock(t, name)
		got := mustGain(t, gos[i])
		toGo = append(toGo, got.at.Sub(released))
		released = time.Now()
		mustUnlock(t, got.hold)
	}
	w.wantPrompt(t, toJava)
	w.wantPrompt(t, toGo)
	for _, took := range append(toJava, toGo...) {
		w.inTime(name, took)
	}
}
