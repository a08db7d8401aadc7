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
