//go:build interop

package interop

import (
	"sync"
	"testing"
)

var fencedTrials = []trial{
	{claim{"FencedLock", "tokens rise by one with each acquisition", "Go <-> Java"}, tokensRise},
	{claim{"FencedLock", "tokens rise under contention", "Go <-> Java"}, tokensRiseUnderContention},
	{claim{"FencedLock", "newest token is read", "Go <-> Java"}, newestToken},
	{claim{"FencedLock", "tokens outlast a forced release", "Go <-> Java"}, tokensOutlastForce},
	{claim{"FencedLock", "tokens outlast Redisson's expire()", "Java -> Go"}, tokensOutlastExpire},
}

func TestFencedLock(t *testing.T) { everywhere(t, since("3.19.0", fencedTrials)) }

func TestFencedLockInCluster(t *testing.T) { inCluster(t, fencedTrials) }

func tokenKey(name string) string { return "redisson_lock_token:" + braced(name) }

// javaToken takes the lock and returns the token that Redisson tells.
func javaToken(t testing.TB, java *thread, name string) int64 {
	t.Helper()
	return result[int64](t, java.send("fenced.lockToken", name))
}

func tokensRise(t *testing.T, w *world) {
	for _, name := range []string{"tokens", "{tokens}:tagged", "ключ"} {
		lock := w.client(t, shortLease).FencedLock(name)
		java := w.java.thread("holder").of("fenced")
		want := int64(0)
		expect := func(side string, got int64) {
			t.Helper()
			if want++; got != want {
				t.Errorf("%s: %s got the token %d, want %d", name, side, got, want)
			}
		}
		for range 3 {
			outer, held := mustLock(t, lock)
			expect("Go", outer.Token())
			inner := mustReenter(t, held, lock)
			expect("Go, re-entering,", inner.Token())
			mustUnlock(t, inner)
			mustUnlock(t, outer)
			expect("Java", javaToken(t, java, name))
			expect("Java, re-entering,", javaToken(t, java, name))
			java.unlock(t, name)
			java.unlock(t, name)
		}
	}
}

// tokensRiseUnderContention: what Go holders draw while Java's draw too never
// goes back, and nobody draws without acquiring.
func tokensRiseUnderContention(t *testing.T, w *world) {
	const (
		name       = "tokens:contended"
		threads    = 3
		goroutines = 3
		each       = 40
	)
	lock := w.client(t, shortLease).FencedLock(name)
	gate, _ := mustLock(t, lock)
	var javas []*reply
	for i := range threads {
		javas = append(javas, w.java.thread("contender"+string(rune('a'+i))).send("fenced.contend", name, name+":counter", "40"))
	}
	var tokens []int64 // unprotected but for the lock; -race looks on
	var gos sync.WaitGroup
	for range goroutines {
		lock := w.client(t, shortLease).FencedLock(name)
		gos.Go(func() {
			for range each {
				hold, _, err := lock.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				tokens = append(tokens, hold.Token())
				if err := hold.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	mustUnlock(t, gate)
	gos.Wait()
	for _, r := range javas {
		r.must(t)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Errorf("the token %d came after %d", tokens[i], tokens[i-1])
		}
	}
	const all = 1 + (threads+goroutines)*each
	if got, err := lock.CurrentToken(t.Context()); err != nil || got != all {
		t.Errorf("the newest token is %d, %v, want %d", got, err, all)
	}
}

func newestToken(t *testing.T, w *world) {
	const name = "tokens:newest"
	lock := w.client(t, shortLease).FencedLock(name)
	java := w.java.thread("reader").of("fenced")
	for want := range int64(4) {
		inGo, err := lock.CurrentToken(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if inJava := result[int64](t, java.send("fenced.getToken", name)); inGo != want || inJava != want {
			t.Errorf("Go reads the token %d, Java %d, want %d", inGo, inJava, want)
		}
		if want%2 == 0 {
			hold, _ := mustLock(t, lock)
			mustUnlock(t, hold)
		} else {
			java.lock(t, name, 0)
			java.unlock(t, name)
		}
	}
}

func tokensOutlastForce(t *testing.T, w *world) {
	const name = "tokens:forced"
	lock := w.client(t, shortLease).FencedLock(name)
	java := w.java.thread("holder").of("fenced")
	first := javaToken(t, java, name)
	if by, err := lock.ForceUnlock(t.Context()); err != nil || by == nil {
		t.Errorf("ForceUnlock = %v, %v, want Java's thread", by, err)
	}
	hold, held := mustLock(t, lock)
	if !java.forceUnlock(t, name) {
		t.Error("forceUnlock of Go's lock is false")
	}
	last := javaToken(t, java, name)
	if hold.Token() <= first || last <= hold.Token() {
		t.Errorf("the tokens were %d, %d and %d, want them to rise", first, hold.Token(), last)
	}
	wantLost(t, hold, held)
	java.unlock(t, name)
}

// tokensOutlastExpire: a MultiLock that is taken with a lease calls expire() on
// its members, and so on the token of a fenced one.
func tokensOutlastExpire(t *testing.T, w *world) {
	const name = "tokens:expiring"
	lock := w.client(t, shortLease).FencedLock(name)
	java := w.java.thread("holder")
	for range 5 {
		hold, _ := mustLock(t, lock)
		mustUnlock(t, hold)
	}
	if !result[bool](t, java.send("multi.tryLock", "fenced:"+name+",fenced:tokens:expiring:2", "1000", "60000")) {
		t.Fatal("Java did not get the locks")
	}
	java.send("multi.unlock", "fenced:"+name+",fenced:tokens:expiring:2").must(t)
	redis := w.serverOf(t, name)
	if ttl := redis.Int(t, "PTTL", tokenKey(name)); ttl <= 0 {
		t.Fatalf("Redisson has left the token a TTL of %d: there is nothing to show", ttl)
	}
	hold, _ := mustLock(t, lock)
	mustUnlock(t, hold)
	if ttl := redis.Int(t, "PTTL", tokenKey(name)); ttl != -1 || hold.Token() != 7 {
		t.Errorf("after Go's acquisition the token is %d with a TTL of %d, want 7 with none", hold.Token(), ttl)
	}
}
