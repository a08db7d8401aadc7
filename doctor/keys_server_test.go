//go:build server

package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The ids of owners: of mortise's clients, and of Redisson's threads.
const (
	ours    = "8f1c2b3a-0000-8000-8000-000000000001:1"
	theirs  = "8f1c2b3a-0000-4000-8000-000000000001:77"
	theirs2 = "8f1c2b3a-0000-4000-8000-000000000002:5"
)

// deployment is where something is planted: at returns the server for a key.
type deployment struct {
	d  driver.Driver
	at func(t *testing.T, key string) *redistest.Server
}

// eachDeployment runs f on a single server, a cluster, and a sentinel set.
func eachDeployment(t *testing.T, f func(t *testing.T, on deployment)) {
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := redistest.Single(t, durable...)
		f(t, deployment{single(t, s), func(*testing.T, string) *redistest.Server { return s }})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.Cluster(t, 0, durable...)
		f(t, deployment{clustered(t, c), func(t *testing.T, key string) *redistest.Server { return c.Owner(t, key) }})
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		set := redistest.Sentinel(t, 1)
		f(t, deployment{watched(t, set), func(t *testing.T, _ string) *redistest.Server { return set.Master(t) }})
	})
}

// must runs a command whose first argument is a key.
func (on deployment) must(t *testing.T, words ...string) any {
	t.Helper()
	return on.at(t, words[1]).Must(t, words...)
}

func wantFixed(t *testing.T, r *doctor.Report, want ...string) {
	t.Helper()
	var got []string
	for _, f := range r.Fixed {
		got = append(got, f.ID+" "+f.Name+": "+f.Did)
	}
	if !slices.Equal(got, want) {
		t.Errorf("fixed %q, want %q", got, want)
	}
}

func TestRealLockWithoutTTL(t *testing.T) {
	t.Parallel()
	eachDeployment(t, func(t *testing.T, on deployment) {
		on.must(t, "HSET", "mine", ours, "1")
		on.must(t, "HSET", "java", theirs, "1")
		on.must(t, "HSET", "fine", theirs, "1")
		on.must(t, "PEXPIRE", "fine", "60000")
		on.must(t, "HSET", "user:1", "name", "no lock")
		on.must(t, "HSET", "rw", "mode", "read", theirs, "1")
		on.must(t, "HSET", "group", "v", theirs, "v:"+theirs+":expire_time", "1", "v:"+theirs+":lock_count", "1")
		on.must(t, "HSET", "three", "a", "1", "b", "2", "c", "3")
		on.must(t, "HSET", "cart:7", strings.TrimRight(theirs, "0123456789")+"sku-42", "3") // another program's
		f := wantFinding(t, report(t, on.d, nil), "lock-without-ttl", doctor.Critical, "mortise unlock --owner")
		if slices.Sort(f.Names); !slices.Equal(f.Names, []string{"group", "java", "mine", "rw"}) || f.Count != 4 || f.Fixable {
			t.Errorf("found %q, count %d, fixable %v", f.Names, f.Count, f.Fixable)
		}
	})
}

// listen returns the messages of a channel, in both forms.
func listen(t *testing.T, d driver.Driver, channel string) <-chan string {
	t.Helper()
	topology, err := d.Topology(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := &ear{heard: make(chan string, 10), ready: make(chan struct{}, 2)}
	sub := d.Subscriber(e)
	t.Cleanup(func() { _ = sub.Close() })
	sub.Subscribe(channel, topology.Sharded)
	select {
	case <-e.ready:
	case <-time.After(time.Minute):
		t.Fatal("not subscribed")
	}
	return e.heard
}

type ear struct {
	heard chan string
	ready chan struct{}
}

func (e *ear) Message(_, payload string) { e.heard <- payload }
func (e *ear) Subscribed(string)         { e.ready <- struct{}{} }
func (e *ear) Refused(string, error)     {}

func TestRealDeadWaiters(t *testing.T) {
	t.Parallel()
	eachDeployment(t, func(t *testing.T, on deployment) {
		now := time.Now().UnixMilli()
		queue := func(name, waiter string, deadline int64) {
			on.must(t, "RPUSH", "redisson_lock_queue:{"+name+"}", waiter)
			if deadline > 0 {
				on.must(t, "ZADD", "redisson_lock_timeout:{"+name+"}", fmt.Sprint(deadline), waiter)
			}
		}
		queue("front", theirs, now-1000) // died; with it the deadline of a thread behind
		queue("front", theirs2, now+600_000)
		queue("stuck", theirs, 0) // Redisson would wait forever
		queue("mine", ours, now+10_000)
		on.must(t, "HSET", "mortise:fair_waiters:{mine}", ours, "1 abc")
		queue("alive", ours, now+10_000)
		on.must(t, "HSET", "mortise:fair_waiters:{alive}", ours, "1 abc")
		on.must(t, "HSET", "mortise:fair:{alive}", strings.Split(ours, ":")[0], fmt.Sprint(now+600_000))
		queue("asked", ours, now+10_000)
		on.must(t, "HSET", "mortise:fair_waiters:{asked}", ours, fmt.Sprint(now+600_000, " abc"))
		queue("passed", ours, now+10_000) // it asked, and then let the lock pass
		on.must(t, "HSET", "mortise:fair_waiters:{passed}", ours, fmt.Sprint(now, " abc"))
		on.must(t, "HSET", "mortise:fair:{passed}", strings.Split(ours, ":")[0], fmt.Sprint(-now))
		queue("other", ours, now+10_000) // waits for {other}
		queue("listens elsewhere", theirs, now+300_000)
		on.must(t, "RPUSH", "redisson_lock_queue:{jobs}", "a", "b", "c") // another program's
		heard := listen(t, on.d, "redisson_lock__channel:{front}:"+theirs2)

		f := wantFinding(t, report(t, on.d, nil), "fair-queue-dead", doctor.Warning, "--fix fair-queue-dead")
		if !slices.Equal(f.Names, []string{"front", "listens elsewhere", "mine", "passed", "stuck"}) {
			t.Errorf("found %q", f.Names)
		}
		if got := on.must(t, "LLEN", "redisson_lock_queue:{front}"); got != int64(2) {
			t.Errorf("without --fix the queue became %v", got)
		}
		r := report(t, on.d, &doctor.Options{Fix: []string{"fair-queue-dead"}})
		wantFixed(t, r, "fair-queue-dead front: removed 1 waiter from the queue",
			"fair-queue-dead listens elsewhere: left as it was: it has changed meanwhile, or somebody may need it",
			"fair-queue-dead mine: removed 1 waiter from the queue", "fair-queue-dead passed: removed 1 waiter from the queue", "fair-queue-dead stuck: removed 1 waiter from the queue")
		if got := fmt.Sprint(on.must(t, "LRANGE", "redisson_lock_queue:{front}", "0", "-1")); got != "["+theirs2+"]" {
			t.Errorf("the queue has %s, want the thread that listens", got)
		}
		if got := on.must(t, "ZCARD", "redisson_lock_timeout:{front}"); got != int64(1) {
			t.Errorf("%v deadlines, want 1", got)
		}
		select {
		case <-heard: // the lock is free: the next one has to know
		case <-time.After(time.Minute):
			t.Error("the next waiter is not told that the lock is free")
		}
		if f := wantFinding(t, report(t, on.d, nil), "fair-queue-dead", doctor.Warning); !slices.Equal(f.Names, []string{"listens elsewhere"}) {
			t.Errorf("found %q afterwards", f.Names)
		}
		if got := on.must(t, "LLEN", "redisson_lock_queue:{jobs}"); got != int64(3) {
			t.Errorf("the list of another program has %v elements, want 3", got)
		}
	})
}

func TestRealPermits(t *testing.T) {
	t.Parallel()
	eachDeployment(t, func(t *testing.T, on deployment) {
		past, future := fmt.Sprint(time.Now().Add(-time.Minute).UnixMilli()), fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
		permits := func(name string, ends ...string) {
			for i, end := range ends {
				on.must(t, "ZADD", "{"+name+"}:timeout", end, fmt.Sprintf("%016d", i))
			}
		}
		permits("expired", past, past, future)
		on.must(t, "SET", "expired", "1")
		permits("orphan", future)
		permits("endless", "922337203685477")
		on.must(t, "SET", "endless", "1")
		permits("below", future)
		on.must(t, "SET", "below", "-2")
		permits("fine", future)
		on.must(t, "SET", "fine", "3")

		r := report(t, on.d, nil)
		for id, severity := range map[string]doctor.Severity{
			"permits-expired": doctor.Info, "permits-without-number": doctor.Critical, "permits-endless": doctor.Warning, "permits-below-zero": doctor.Info,
		} {
			f := wantFinding(t, r, id, severity)
			want := map[string]string{"permits-expired": "expired", "permits-without-number": "orphan", "permits-endless": "endless", "permits-below-zero": "below"}[id]
			if len(f.Names) != 1 || f.Names[0] != want {
				t.Errorf("%s names %q, want %s", id, f.Names, want)
			}
		}
		if got := on.must(t, "GET", "expired"); got != "1" {
			t.Errorf("without --fix the number became %v", got)
		}
		heard := listen(t, on.d, "redisson_sc:{expired}")
		wantFixed(t, report(t, on.d, &doctor.Options{Fix: []string{"permits-expired"}}), "permits-expired expired: took back 2 expired permits")
		if got := on.must(t, "GET", "expired"); got != "3" {
			t.Errorf("the number is %v, want 3", got)
		}
		if got := on.must(t, "ZCARD", "{expired}:timeout"); got != int64(1) {
			t.Errorf("%v permits are held, want 1", got)
		}
		select {
		case got := <-heard:
			if got != "3" {
				t.Errorf("the message is %q, want 3", got)
			}
		case <-time.After(time.Minute):
			t.Error("waiters are not told that there are permits")
		}
		if got := on.must(t, "EXISTS", "orphan"); got != int64(0) {
			t.Error("a number was made for a semaphore without one")
		}
	})
}

// Keys that have the names of those of locks, and are something else, hide nothing.
func TestRealKeysThatAreSomethingElse(t *testing.T) {
	t.Parallel()
	eachDeployment(t, func(t *testing.T, on deployment) {
		on.must(t, "RPUSH", "redisson_lock_queue:{bad}", ours, theirs)
		on.must(t, "SET", "redisson_lock_timeout:{bad}", "x")
		on.must(t, "SET", "mortise:fair_waiters:{bad}", "x")
		on.must(t, "RPUSH", "redisson_lock_queue:{}x{y}", theirs) // no name of a lock on a cluster
		on.must(t, "ZADD", "{}x{y}:timeout", "1", "x")
		on.must(t, "ZADD", "{session}:timeout", "1", "another program's")
		on.must(t, "RPUSH", "redisson_lock_queue:{stuck}", theirs)
		on.must(t, "ZADD", "{expired}:timeout", "1", "0123456789abcdef")
		on.must(t, "SET", "expired", "0")
		r := report(t, on.d, &doctor.Options{Fix: doctor.Fixable()})
		if f := wantFinding(t, r, "fair-queue-dead", doctor.Warning); !slices.Contains(f.Names, "stuck") {
			t.Errorf("found %q", f.Names)
		}
		if f := wantFinding(t, r, "permits-expired", doctor.Info); !slices.Contains(f.Names, "expired") {
			t.Errorf("found %q", f.Names)
		}
		if len(r.Find("permits-without-number")) > 0 {
			t.Errorf("another program's key is taken for permits: %+v", r.Find("permits-without-number"))
		}
		if got := on.must(t, "LLEN", "redisson_lock_queue:{bad}"); got != int64(2) {
			t.Errorf("the queue with something else beside it has %v waiters, want 2", got)
		}
		if got := on.must(t, "GET", "expired"); got != "1" {
			t.Errorf("the number is %v, want 1", got)
		}
	})
}

// Few keys are looked at if few are wanted, and the report says so.
func TestRealSearchIsBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	s.Must(t, "EVAL", "for i = 1, 20000 do redis.call('set', 'k' .. i, i) end", "0")
	r := report(t, single(t, s), &doctor.Options{Keys: 1000})
	f := wantFinding(t, r, "keys", doctor.Info, "of 20000 keys", "--keys -1")
	if r.Keys != 20000 || r.Looked < 1000 || r.Looked > 2000 {
		t.Errorf("looked at %d of %d keys: %s", r.Looked, r.Keys, f.Found)
	}
	if r = report(t, single(t, s), &doctor.Options{Keys: -1}); r.Looked != 20000 {
		t.Errorf("looked at %d of %d keys, want all", r.Looked, r.Keys)
	}
}

func TestRealTokensThatNobodyUses(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	// RESTORE can set the idle time of a key.
	s.Must(t, "SET", "redisson_lock_token:{old}", "70000")
	dump := s.Str(t, "DUMP", "redisson_lock_token:{old}")
	s.Must(t, "RESTORE", "redisson_lock_token:{old}", "0", dump, "REPLACE", "IDLETIME", fmt.Sprint(31*24*3600))
	s.Must(t, "SET", "redisson_lock_token:{new}", "70001")
	f := wantFinding(t, report(t, single(t, s), nil), "tokens-unused", doctor.Info, "mortise tokens --idle 720h")
	if !slices.Equal(f.Names, []string{"old"}) {
		t.Errorf("found %q, want old", f.Names)
	}
	s.Must(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
	wantFinding(t, report(t, single(t, s), nil), "tokens-unused", doctor.Unknown, "LFU")
}

// Names that would do something on a terminal, in a shell, or in a rule.
func TestRealHostileNames(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	odd := "\x1b]0;x\a\xff\x00'; rm -rf / #<script>$(id)`id`"
	for _, name := range []string{odd, "-v", strings.Repeat("\xf0\x9f", 256), "<b>"} {
		s.Must(t, "HSET", name, ours, "1")
		s.Must(t, "RPUSH", "redisson_lock_queue:{"+name+"}", theirs)
		s.Must(t, "ZADD", "{"+name+"}:timeout", "1", odd[:16])
		s.Must(t, "SET", "redisson_lock_token:{"+name+"}", odd)
	}
	s.Must(t, "HSET", "wrong", odd, "x")
	s.Must(t, "RPUSH", "redisson_lock_queue:{wrong}", strings.Repeat("x", 10_000))
	s.Must(t, "SADD", "{set}:timeout", "x")
	s.Must(t, "ZADD", "mortise:clients:{all}", "9e15", odd)
	s.Must(t, "CLIENT", "SETNAME", "lib-name=evil")
	r := report(t, single(t, s), &doctor.Options{Fix: doctor.Fixable()})
	for _, f := range r.Findings {
		for _, text := range []string{f.Found, f.Do, f.Command} {
			if strings.ContainsAny(text, "\x1b\a\x00") || !utf8.ValidString(text) || len(text) > 4096 {
				t.Errorf("%s: a text of %d bytes that could do something to a terminal: %q", f.ID, len(text), text)
			}
		}
		if strings.Contains(f.Command, "unlock") && strings.Contains(strings.ReplaceAll(f.Command, `\047`, ""), "'; rm") {
			t.Errorf("%s: the command ends the quoting: %q", f.ID, f.Command)
		}
	}
	for _, f := range r.Fixed {
		if strings.Contains(f.Did, "\x1b") {
			t.Errorf("fixed: %q", f.Did)
		}
	}
}

// The end of the context ends the examination.
func TestRealContextEnds(t *testing.T) {
	t.Parallel()
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		s := redistest.Single(t)
		d := single(t, s)
		s.Pause(t)
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, why)
		defer cancel()
		start := time.Now()
		if _, err := doctor.Examine(ctx, d, nil); !errors.Is(err, why) {
			t.Errorf("Examine: %v, want the cause of the context", err)
		}
		b.Within("the examination", time.Since(start), 5*time.Second)
	})
}

// Waiters that live are no finding, and keep their places whatever is to be mended.
func TestRealWaitersThatLive(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	c := mortise.New(single(t, s), nil)
	defer c.Close()
	other := mortise.New(single(t, s), nil)
	defer other.Close()
	hold, _, err := c.FairLock("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		next, _, err := other.FairLock("job").Lock(t.Context())
		if err == nil {
			err = next.Unlock()
		}
		got <- err
	}()
	redistest.Eventually(t, "somebody waits", func() error {
		if n := s.Int(t, "LLEN", "redisson_lock_queue:{job}"); n != 1 {
			return fmt.Errorf("%d waiters", n)
		}
		return nil
	})
	r := report(t, single(t, s), &doctor.Options{Fix: doctor.Fixable()})
	wantFinding(t, r, "fair-queue-dead", doctor.OK)
	wantFixed(t, r)
	if n := s.Int(t, "LLEN", "redisson_lock_queue:{job}"); n != 1 {
		t.Errorf("%d waiters, want 1", n)
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}
