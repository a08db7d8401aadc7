package server

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The connection is cut after a script ran and before its reply arrived: tokens
// go on rising, and are those that Redis has.
func TestRealFencedLockLostReplies(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		p := redistest.NewProxy(t, s.Addr())
		k := dial(p.Addr(), nil).FencedLock("job")
		warm, ctx := mustFence(t, k, t.Context()) // every script is known to the server from here on
		inner, _ := mustFence(t, k, ctx)
		mustUnlock(t, inner)
		mustUnlock(t, warm)
		last := inner.Token()
		for range 3 {
			cut := p.LoseReply("job", 1)
			outer, ctx := mustFence(t, k, t.Context())
			<-cut
			if outer.Token() <= last {
				t.Errorf("the token %d came after %d", outer.Token(), last)
			}
			last = outer.Token()
			cut = p.LoseReply("job", 1)
			inner, _ := mustFence(t, k, ctx)
			<-cut
			if inner.Token() <= last || fmt.Sprint(inner.Token()) != s.Str(t, "GET", "redisson_lock_token:{job}") {
				t.Errorf("the token %d came after %d", inner.Token(), last)
			}
			last = inner.Token()
			mustUnlock(t, inner)
			mustUnlock(t, outer)
		}
	})
}

func TestRealGroupLockLostReplies(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		p := redistest.NewProxy(t, s.Addr())
		k := dial(p.Addr(), nil).GroupLock("job", "a", "b")
		warm, ctx := mustFence(t, k, t.Context())
		inner, _ := mustFence(t, k, ctx)
		mustUnlock(t, inner)
		mustUnlock(t, warm)
		const a = "Jon6GCcO+0QSJkhre5wXYA" // the field of "a"
		count := func(h *mortise.Hold) string { return s.Str(t, "HGET", "job", a+":"+h.Owner()+":lock_count") }

		cut := p.LoseReply("job", 1)
		outer, ctx := mustFence(t, k, t.Context())
		<-cut
		if n := count(outer); n != "1" {
			t.Errorf("after a lost reply of the acquisition the count is %q, want 1", n)
		}
		cut = p.LoseReply("job", 1)
		inner, _ = mustFence(t, k, ctx)
		<-cut
		if n := count(outer); n != "2" {
			t.Errorf("after a lost reply of the re-entry the count is %q, want 2", n)
		}
		cut = p.LoseReply("job", 1)
		mustUnlock(t, inner)
		<-cut
		if n := count(outer); n != "1" {
			t.Errorf("after a lost reply of the partial unlock the count is %q, want 1", n)
		}
		cut = p.LoseReply("job", 1)
		if err := outer.Unlock(); !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("Unlock with a lost reply: %v, want ErrUnknownOutcome", err)
		}
		<-cut
		if n := s.Int(t, "EXISTS", "job"); n != 0 {
			t.Error("the group is still there")
		}
	})
}

// All keys of a lock lie in its slot; it is renewed, and others are woken, or
// find out, on every shard.
func TestRealFencedSpinAndGroupLocksOnACluster(t *testing.T) {
	onClusterInTime(t, func(t *testing.T, b *canary.Bounds, driver string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client) {
		const lease = 2 * time.Second
		c, other := dial(&mortise.Options{TTL: lease}), dial(nil)
		var holds []*mortise.Hold
		var waiting sync.WaitGroup
		for i, master := range set.Masters {
			for _, kind := range []string{"FencedLock", "SpinLock", "GroupLock"} {
				name := set.KeyOn(t, master, fmt.Sprint(driver, kind, i))
				outer, ctx := mustFence(t, kinds[kind].Open(c, name, mortise.LockOptions{}), t.Context())
				inner, _ := mustFence(t, kinds[kind].Open(c, name, mortise.LockOptions{}), ctx)
				holds = append(holds, inner, outer)
				waiting.Go(func() {
					hold, _, err := kinds[kind].Open(other, name, mortise.LockOptions{}).Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if kind == "FencedLock" && hold.Token() <= inner.Token() {
						t.Errorf("%s: the token %d came after %d", name, hold.Token(), inner.Token())
					}
					mustUnlock(t, hold)
				})
			}
		}
		renewed := awaitRenewals(t, b, lease, holds...)
		for _, h := range holds {
			if err := h.Unlock(); err != nil && renewed {
				t.Error(err)
			}
		}
		waiting.Wait()
	})
}
