package waiting

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/memredis"
)

// What is heard while one of Redisson's threads goes on having a lock is no release of that lock. It counts as the threads' part
// twice, and not each time that the thread is seen again.
func TestNoiseDuringAHoldCountsTwice(t *testing.T) {
	for _, test := range []struct {
		name string
		by   func(seen int) script.Holder
		want int
	}{
		{"one hold", func(seen int) script.Holder {
			return script.Holder{Owner: "thread:1", TTL: 30*time.Second - time.Duration(seen)*10*time.Millisecond}
		}, 2},
		{"one hold, told to the millisecond", func(seen int) script.Holder {
			return script.Holder{Owner: "thread:1", TTL: 30*time.Second - time.Duration(seen)*10*time.Millisecond + time.Duration(seen%2)*time.Millisecond}
		}, 2},
		{"a hold of the same thread each time", func(int) script.Holder { return script.Holder{Owner: "thread:1", TTL: 30 * time.Second} }, 6},
		{"a hold of another thread each time", func(seen int) script.Holder {
			return script.Holder{Owner: "thread:" + string(rune('1'+seen)), TTL: time.Second}
		}, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memredis.New()
				defer s.Close()
				c := newClient(s.Driver())
				defer c.Close()
				k := plainLock(c, "job")
				as := keyspace.LockChannel("job")
				for seen := range 6 {
					by := test.by(seen)
					c.Mu.Lock()
					QueuesOf(c).heldBy(k, &by)
					c.Mu.Unlock()
					time.Sleep(10 * time.Millisecond)
					QueuesOf(c).sharing.announced(as, "0")
				}
				c.Mu.Lock()
				defer c.Mu.Unlock()
				if s := QueuesOf(c).sharing.shared(as); s == nil {
					t.Error("no thread is known")
				} else if s.theirs != test.want {
					t.Errorf("the threads had it %d times, want %d", s.theirs, test.want)
				}
			})
		})
	}
}

// What a grant says of Redisson's threads is believed. Of a message that leaves the lock to them, which anybody may publish, five chances
// in vain are, and no time in which they have none.
func TestHearsayIsBelievedInPart(t *testing.T) {
	for _, test := range []struct {
		message string
		vain    int
		keep    time.Duration
	}{
		{"~ 4 1000", 4, 40 * time.Millisecond}, {"~ 5 1000", 5, 40 * time.Millisecond}, {"~ 6 1000", 5, 40 * time.Millisecond}, {"~", 2, 40 * time.Millisecond},
		{"id:1 1 6 160", 6, 160 * time.Millisecond}, {"id:1 1 0 0", 0, 0}, {"id:1 1", 2, 40 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			now := time.Now()
			qs := &Queues{}
			before := sharing{seen: now, vain: 2, keep: now.Add(40 * time.Millisecond)}
			qs.sharing = sharings{qs, map[string]*sharing{"job": &before}}
			m := script.ParseTurn(test.message)
			qs.sharing.learn("job", &m)
			keep := max(before.keep.Sub(now), 0)
			if before.vain != test.vain || keep != test.keep {
				t.Errorf("%q: %d chances in vain, and none for %v; want %d, and %v", test.message, before.vain, keep, test.vain, test.keep)
			}
		})
	}
}
