package behavior

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// slowPost is a driver whose messages take their time.
type slowPost struct {
	driver.Driver
	delay time.Duration
}

func (d *slowPost) Subscriber(sink driver.Sink) driver.Subscriber {
	return d.Driver.Subscriber(slowSink{sink, d})
}

type slowSink struct {
	driver.Sink
	post *slowPost
}

func (s slowSink) Message(channel, payload string) {
	time.AfterFunc(s.post.delay, func() { s.Sink.Message(channel, payload) })
}

// The news of a grant may come when that is long over, and a later
// attempt has been refused since. It must not be taken for news of what came
// after that attempt.
func TestStaleNewsOfALockThatWasGiven(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(c *mortise.Client) interface {
		Lock(context.Context) (*mortise.Hold, context.Context, error)
	}{
		"lock": func(c *mortise.Client) interface {
			Lock(context.Context) (*mortise.Hold, context.Context, error)
		} {
			return c.Lock("job")
		},
		"fair lock": func(c *mortise.Client) interface {
			Lock(context.Context) (*mortise.Hold, context.Context, error)
		} {
			return c.FairLock("job")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				first, _ := open(t, s, nil)
				next, _ := open(t, s, nil)
				post := &slowPost{Driver: s.Driver(), delay: 6 * time.Second}
				mute := &faults{Driver: post}
				c := mortise.New(mute, nil)
				defer c.Close()

				block, _, err := of(first).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got := make(chan *mortise.Hold, 1)
				go func() {
					hold, _, err := of(c).Lock(t.Context())
					if err != nil {
						t.Error(err)
					}
					got <- hold
				}()
				time.Sleep(10 * time.Second) // it has its turn
				silentUntil := time.Now().Add(4 * time.Second)
				mute.Set(func(context.Context, string) error {
					if time.Now().Before(silentUntil) {
						return &driver.Error{Class: driver.NotSent, Err: errCut}
					}
					return nil
				}, nil)
				mustUnlock(t, block) // grants it to c, which cannot know
				hold, _, err := of(next).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				wantAlone(t, hold, got)
				mustUnlock(t, hold)
				mustUnlock(t, <-got)
			})
		})
	}
}

// wantAlone checks for a while that no other has the lock.
func wantAlone(t *testing.T, hold *mortise.Hold, others <-chan *mortise.Hold) {
	end := time.Now().Add(10 * time.Second)
	for time.Now().Before(end) {
		time.Sleep(50 * time.Millisecond)
		select {
		case second := <-others:
			t.Fatalf("%s has the lock while %s has it", second.Owner(), hold.Owner())
		default:
		}
	}
}
