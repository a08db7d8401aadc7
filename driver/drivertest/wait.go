package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// wait covers scripts that are followed by WAIT.
func (s suite) wait(t *testing.T) {
	master := redistest.Single(t)
	replicas := []*redistest.Server{redistest.Replica(t, master), redistest.Replica(t, master)}
	online(t, master, 2)
	d := s.driver(t, at(master))
	t.Run("acknowledged", func(t *testing.T) { s.acknowledged(t, d, master) })
	t.Run("forms of reply", func(t *testing.T) { waitValues(t, d) })
	t.Run("refused", func(t *testing.T) { s.waitRefused(t, master) })
	t.Run("append-only file", func(t *testing.T) { waitAOF(t, d, master) })
	t.Run("of a replica", func(t *testing.T) {
		d := s.driver(t, at(replicas[0]))
		for _, call := range []driver.Call{callIncr("wait:replica"), {Script: look, Keys: []string{"wait:replica"}}} {
			wantClass(t, wait1(t, d, call, 1, time.Second).Err, driver.Passing)
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		p, d := s.through(t, master, 0)
		eval(t, d, incr, []string{"wait:unreachable:first"})
		p.Refuse()
		p.CutAll()
		for i := range 10 { // the client may not know yet that its connections are gone
			got := wait1(t, d, callIncr(fmt.Sprint("wait:unreachable:", i)), 1, time.Second)
			wantClass(t, got.Err, driver.NotSent, driver.Unknown)
		}
		wantAbsent(t, master, "wait:unreachable:9")
	})
	t.Run("stalled", func(t *testing.T) { s.waitStalled(t, d, master, replicas) })
	t.Run("lost reply", func(t *testing.T) { s.waitLostReply(t, master) })
	t.Run("closed", func(t *testing.T) {
		d := s.open(t, at(master))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		wantClass(t, wait1(t, d, callIncr("wait:closed"), 1, time.Second).Err, driver.Closed)
		wantAbsent(t, master, "wait:closed")
	})
}

// look writes nothing.
var look = driver.NewScript("look", `return redis.call('EXISTS', KEYS[1])`)

func online(t *testing.T, master *redistest.Server, n int) {
	t.Helper()
	redistest.Eventually(t, "replicas online", func() error {
		text := master.Str(t, "INFO", "replication")
		if got := strings.Count(text, "state=online"); got != n {
			return fmt.Errorf("%d of %d are", got, n)
		}
		return nil
	})
}

func evalWait(t *testing.T, ctx context.Context, d driver.Driver, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	t.Helper()
	waiter, ok := d.(driver.Waiter)
	if !ok {
		t.Fatal("the driver is no driver.Waiter")
	}
	results := waiter.EvalWait(ctx, calls, wait)
	if len(results) != len(calls) {
		t.Fatalf("%d results for %d calls", len(results), len(calls))
	}
	return results
}

// wait1 runs one script, and counts the replicas.
func wait1(t *testing.T, d driver.Driver, call driver.Call, replicas int, timeout time.Duration) driver.Acknowledged {
	t.Helper()
	return evalWait(t, t.Context(), d, []driver.Call{call}, driver.Wait{Replicas: replicas, Timeout: timeout, Count: true})[0]
}

func wantAcks(t *testing.T, got driver.Acknowledged, value int64, acks, of int) {
	t.Helper()
	if got.Err != nil || got.Value.Int() != value || got.Acks != acks || got.Of != of {
		t.Errorf("got %v, %d of %d replicas, %v, want %d, %d of %d", got.Value, got.Acks, got.Of, got.Err, value, acks, of)
	}
}

func (s suite) acknowledged(t *testing.T, d driver.Driver, server *redistest.Server) {
	for i := range int64(3) {
		if i == 2 {
			server.Must(t, "SCRIPT", "FLUSH") // EVALSHA, then EVAL, and a WAIT behind each
		}
		wantAcks(t, wait1(t, d, callIncr("wait:one"), 2, patience), i+1, 2, 2)
	}
	server.Must(t, "SCRIPT", "FLUSH")
	var calls []driver.Call
	for i := range 50 {
		calls = append(calls, callIncr(fmt.Sprint("wait:", i)))
	}
	calls[20] = driver.Call{Script: look, Keys: []string{"wait:none"}}
	for i, r := range evalWait(t, t.Context(), d, calls, driver.Wait{Replicas: 2, Timeout: patience}) {
		want := int64(1)
		if i == 20 {
			want = 0
		}
		wantAcks(t, r, want, 2, 0)
	}
	s.promptly(t, "asking without waiting", func() {
		if got := wait1(t, d, callIncr("wait:zero"), 0, time.Hour); got.Err != nil || got.Value.Int() != 1 || got.Of != 2 {
			t.Errorf("without waiting: %+v", got)
		}
	})
	start := time.Now()
	got := wait1(t, d, callIncr("wait:many"), 3, 300*time.Millisecond)
	wantAcks(t, got, 1, 2, 2)
	if took := time.Since(start); took < 250*time.Millisecond {
		t.Errorf("WAIT for more replicas than there are took %v, want its timeout", took)
	}
}

func waitValues(t *testing.T, d driver.Driver) {
	for lua, want := range map[string]string{
		"return false": "nil", "return {}": "[]", "return ''": `""`, "return {1, 'a', {2}}": `[1 "a" [2]]`, "return '7'": `"7"`,
	} {
		got := wait1(t, d, driver.Call{Script: driver.NewScript("form", lua), Keys: []string{"wait:form"}}, 0, time.Second)
		if got.Err != nil || got.Value.String() != want {
			t.Errorf("%s: %v, %v, want %s", lua, got.Value, got.Err, want)
		}
	}
}

// waitRefused: in a pipeline, failed calls and successful ones are told apart.
func (s suite) waitRefused(t *testing.T, server *redistest.Server) {
	d := s.driver(t, at(server))
	server.Must(t, "HSET", "wait:hash", "f", "v")
	results := evalWait(t, t.Context(), d, []driver.Call{callIncr("wait:hash"), callIncr("wait:fine")},
		driver.Wait{Replicas: 2, Timeout: patience})
	wantClass(t, results[0].Err, driver.WrongType)
	wantAcks(t, results[1], 1, 2, 0)

	for i, right := range []string{"-info", "-wait"} {
		d := s.driver(t, withUser(t, at(server), fmt.Sprint("waiter", i), "~* &* +@all "+right, server))
		key := "wait:denied:" + right
		got := wait1(t, d, callIncr(key), 2, patience)
		wantClass(t, got.Err, driver.Denied)
		if got.Value.Int() != 1 || server.Int(t, "GET", key) != 1 {
			t.Errorf("%s: the script's answer is %v, want 1", right, got.Value)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := evalWait(t, ctx, d, []driver.Call{callIncr("wait:ended")}, driver.Wait{Replicas: 1, Timeout: time.Second})[0]
	wantClass(t, got.Err, driver.NotSent)
	wantAbsent(t, server, "wait:ended")
}

// waitAOF: a server without WAITAOF reports that, and one that has it syncs.
func waitAOF(t *testing.T, d driver.Driver, server *redistest.Server) {
	wait := driver.Wait{AOF: true, Timeout: patience}
	ask := func() driver.Acknowledged {
		return evalWait(t, t.Context(), d, []driver.Call{callIncr("wait:aof")}, wait)[0]
	}
	if _, err := server.Do("WAITAOF", "0", "0", "1"); err != nil {
		got := ask()
		wantClass(t, got.Err, driver.Other)
		if got.Value.Int() != 1 {
			t.Errorf("the script's answer is %v, want 1", got.Value)
		}
		return
	}
	wantClass(t, ask().Err, driver.Other) // it has no such file
	server.Must(t, "CONFIG", "SET", "appendonly", "yes")
	if got := ask(); got.Err != nil || !got.Synced {
		t.Errorf("with a file: %+v", got)
	}
	server.Must(t, "CONFIG", "SET", "appendonly", "no")
}

// waitStalled: frozen replicas do not acknowledge. WAIT on another connection, which has written
// nothing, would count them.
func (s suite) waitStalled(t *testing.T, d driver.Driver, master *redistest.Server, replicas []*redistest.Server) {
	wantAcks(t, wait1(t, d, callIncr("wait:stalled"), 2, patience), 1, 2, 2)
	replicas[0].Pause(t)
	for i := range 5 {
		wantAcks(t, wait1(t, d, callIncr("wait:stalled"), 1, patience), int64(i)+2, 1, 2)
	}
	start := time.Now()
	wantAcks(t, wait1(t, d, callIncr("wait:stalled"), 2, 200*time.Millisecond), 7, 1, 2)
	s.within("WAIT with a timeout of 200ms", time.Since(start), generous)
	t.Run("longer than the client waits for replies", func(t *testing.T) {
		d := s.driver(t, Target{Mode: Single, Addrs: []string{master.Addr()}, Timeout: 500 * time.Millisecond})
		wantAcks(t, wait1(t, d, callIncr("wait:long"), 2, 1500*time.Millisecond), 1, 1, 2)
	})
	t.Run("in parallel with other calls", func(t *testing.T) {
		slow := make(chan driver.Acknowledged)
		go func() { slow <- wait1(t, d, callIncr("wait:slow"), 2, 3*time.Second) }()
		redistest.Eventually(t, "a client that waits", func() error {
			if got := master.Str(t, "INFO", "clients"); !strings.Contains(got, "blocked_clients:1") {
				return errors.New("none does")
			}
			return nil
		})
		start := time.Now()
		for range 100 {
			eval(t, d, incr, []string{"wait:beside"})
		}
		s.within("a hundred calls next to one that waits", time.Since(start), 2*time.Second)
		wantAcks(t, <-slow, 1, 1, 2)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		s.promptly(t, "a call with a deadline", func() {
			got := evalWait(t, ctx, d, []driver.Call{callIncr("wait:cancelled")}, driver.Wait{Replicas: 2, Timeout: 2 * time.Second})[0]
			wantEnded(t, got.Err, context.DeadlineExceeded)
		})
	})
	for _, r := range replicas {
		r.Resume(t)
	}
	wantAcks(t, wait1(t, d, callIncr("wait:again"), 2, patience), 1, 2, 2)
}

func (s suite) waitLostReply(t *testing.T, master *redistest.Server) {
	p, d := s.through(t, master, 0)
	wantAcks(t, wait1(t, d, callIncr("wait:lost"), 2, patience), 1, 2, 2)
	lost := p.LoseReply("wait:lost", 1)
	wantClass(t, wait1(t, d, callIncr("wait:lost"), 2, patience).Err, driver.Unknown)
	<-lost
	recovers(t, d, "wait:lost:later")
	if got := master.Int(t, "GET", "wait:lost"); got != 2 {
		t.Errorf("the script ran %d times, want 2", got)
	}
	p, d = s.through(t, master, time.Second)
	eval(t, d, incr, []string{"wait:silent:first"})
	wantAcks(t, wait1(t, d, callIncr("wait:silent"), 2, patience), 1, 2, 2)
	p.Stall(redistest.Replies)
	start := time.Now()
	got := evalWait(t, context.Background(), d, []driver.Call{callIncr("wait:silent")}, driver.Wait{Replicas: 1, Timeout: 100 * time.Millisecond})[0]
	wantClass(t, got.Err, driver.Unknown)
	s.within("WAIT on a silent network", time.Since(start), 20*time.Second)
}

// waitCluster: each master has a replica of its own, and keys move.
func waitCluster(t *testing.T, d driver.Driver, c *redistest.ClusterSet) {
	for i, m := range c.Masters {
		online(t, m, 1)
		var calls []driver.Call // in several slots of one master
		for j := range 5 {
			calls = append(calls, callIncr(c.KeyOn(t, m, fmt.Sprint("wait:", i, ":", j, ":"))))
		}
		for _, r := range evalWait(t, t.Context(), d, calls, driver.Wait{Replicas: 1, Timeout: patience, Count: true}) {
			wantAcks(t, r, 1, 1, 1)
		}
	}
	from, to := c.Masters[0], c.Masters[1]
	key := c.KeyOn(t, from, "wait:moves:")
	wantAcks(t, wait1(t, d, callIncr(key), 1, patience), 1, 1, 1)
	c.MoveSlot(t, c.Slot(t, key), from, to)
	wantAcks(t, wait1(t, d, callIncr(key), 1, patience), 2, 1, 1)
	if got := to.Str(t, "GET", key); got != "2" {
		t.Errorf("the new master counts %s, want 2", got)
	}

	// Another key of the slot is on the other server already, the first is not.
	here := c.KeyOn(t, from, "wait:asked:")
	there := "{" + here + "}"
	wantAcks(t, wait1(t, d, callIncr(there), 1, patience), 1, 1, 1)
	wantAcks(t, wait1(t, d, callIncr(here), 1, patience), 1, 1, 1)
	c.BeginMove(t, c.Slot(t, here), from, to)
	c.MoveKeys(t, c.Slot(t, here), from, to, there)
	for i := range int64(2) {
		to.Must(t, "SCRIPT", "FLUSH") // ASK, and then NOSCRIPT after ASKING
		for _, r := range evalWait(t, t.Context(), d, []driver.Call{callIncr(here), callIncr(there)},
			driver.Wait{Replicas: 1, Timeout: patience, Count: true}) {
			wantAcks(t, r, i+2, 1, 1)
		}
	}
	c.MoveKeys(t, c.Slot(t, here), from, to)
	c.EndMove(t, c.Slot(t, here), to)
}
