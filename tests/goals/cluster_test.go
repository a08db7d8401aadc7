package goals

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The slot of a lock moves to another master while the lock is held and waited for: the waiter has it
// soon after its release.
func TestMovedSlots(t *testing.T) {
	moves := times(2, 50)
	set := redistest.Cluster(t, 0)
	each(t, func(t *testing.T, dial func(addrs ...string) *mortise.Client) {
		canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
			holder, waiter := dial(set.Addrs()...), dial(set.Addrs()...)
			var k took
			for i := range moves {
				name := fmt.Sprint("job ", t.Name(), i)
				free, wait := heldUp(t, holder.Lock(name), waiter.Lock(name))
				got := make(chan error, 1)
				go func() { got <- wait() }()
				redistest.Eventually(t, "somebody waits", func() error {
					for _, m := range set.Masters {
						for _, what := range []string{"CHANNELS", "SHARDCHANNELS"} {
							if v, err := m.Do("PUBSUB", what, "mortise:turn:{"+name+"}*"); err == nil && len(v.([]any)) > 0 {
								return nil
							}
						}
					}
					return errors.New("nobody")
				})
				from := set.Owner(t, name)
				to := set.Masters[0]
				if from == to {
					to = set.Masters[1+i%2]
				}
				set.MoveSlot(t, set.Slot(t, name), from, to)
				must(t, free())
				begin := time.Now()
				must(t, <-got)
				k.add(time.Since(begin))
			}
			k.want(t, b, "the hand-over in a slot that has moved", time.Second, time.Second)
		})
	})
}
