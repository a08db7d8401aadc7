package goals

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// Whatever makes Redis forget what is held: each holder is told, at its next renewal at the latest.
func TestEachLossIsTold(t *testing.T) {
	const lease = 30 * time.Second
	holders := holders()
	each := (times(140, 1000) + len(holders) - 1) / len(holders)
	for name, forget := range map[string]func(s *mortisetest.Server, keys []string){
		"eviction":                   func(s *mortisetest.Server, keys []string) { s.Evict(keys...) },
		"a restart without its data": func(s *mortisetest.Server, _ []string) { s.Restart() },
		"a clock an hour ahead":      func(s *mortisetest.Server, _ []string) { s.Jump(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mortisetest.NewServer()
				defer s.Close()
				c := mortise.New(s.Link(), &mortise.Options{TTL: lease})
				defer c.Close()
				var held []context.Context
				for kind, hold := range holders {
					for i := range each {
						name := fmt.Sprint(kind, " ", i)
						if kind == "PermitSemaphore" {
							if err := c.PermitSemaphore(name).SetPermits(t.Context(), 1); err != nil {
								t.Fatal(err)
							}
						}
						ctx, _, err := hold(t.Context(), c, name)
						if err != nil {
							t.Fatal(kind, err)
						}
						held = append(held, ctx)
						time.Sleep(lease / 3 / time.Duration(each*len(holders))) // so that some were renewed just before
					}
				}
				time.Sleep(21 * time.Second)
				forget(s, left(t, s))
				forgot := time.Now()
				slowest := time.Duration(0)
				for _, ctx := range held {
					<-ctx.Done()
					slowest = max(slowest, time.Since(forgot))
					if cause := context.Cause(ctx); !errors.Is(cause, mortise.ErrLost) {
						t.Errorf("the cause is %v, want ErrLost", cause)
					}
				}
				t.Logf("%d holders were told, the last after %v", len(held), slowest)
				if most := lease/3 + 100*time.Millisecond; slowest > most {
					t.Errorf("the last one was told after %v, want %v at most", slowest, most)
				}
			})
		})
	}
}

// A client that has seen a token gets no smaller one after Redis has forgotten it.
func TestEachTokenThatWentBackIsRefused(t *testing.T) {
	names := times(100, 1000)
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		c := mortise.New(s.Link(), nil)
		defer c.Close()
		for i := range names {
			for range 2 {
				if err := c.FencedLock(fmt.Sprint(i)).Do(t.Context(), func(context.Context) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			s.Evict(fmt.Sprintf("redisson_lock_token:{%d}", i))
		}
		refused := 0
		for i := range names {
			if _, _, err := c.FencedLock(fmt.Sprint(i)).Lock(t.Context()); errors.Is(err, mortise.ErrFenceRegressed) {
				refused++
			}
		}
		t.Logf("%d of %d were refused", refused, names)
		if refused != names {
			t.Errorf("%d of %d tokens that went back were refused, want all", refused, names)
		}
	})
}
