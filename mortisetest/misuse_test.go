package mortisetest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// wantPanic runs f, which must panic with a text that has all of these parts.
func wantPanic(t *testing.T, f func(), parts ...string) {
	t.Helper()
	defer func() {
		t.Helper()
		text := fmt.Sprint(recover())
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("panic %q, want one with %q", text, part)
			}
		}
	}()
	f()
}

// A name that no script has would never match, and the test that gives it would test nothing.
func TestNamesOfScriptsThatDoNotExist(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		wantPanic(t, func() { l.Next("lock_acquires", 1, mortisetest.Fault{}) }, `"lock_acquires"`, "lock_acquire, ", "SCAN", "fencing", "rw_write_release")
		wantPanic(t, func() { l.Next("turns", 1, mortisetest.Fault{}) }, "no script of mortise") // a part of others
		wantPanic(t, func() { l.Calls("incr") }, `"incr"`)
		wantPanic(t, func() { l.Next("lock_acquire", 0, mortisetest.Fault{}) }, "the next 0 calls")
		for _, name := range []string{"", "lock_acquire", "lock_renew", "lock_renew_durably", "permit_acquire", "fencing", "SCAN"} {
			l.Next(name, 1, mortisetest.Fault{})
			_ = l.Calls(name)
		}
	})
}

// The first of two clients of one link would close it under the other.
func TestTwoClientsOfOneLink(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		c := mortise.New(l, nil)
		wantPanic(t, func() { mortise.New(l, nil) }, "the Link has a client already", "server.Link()")
		if err := c.Lock("job").Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		_ = c.Close()
		wantPanic(t, func() { mortise.New(l, nil) }, "the Link has a client already")
	})
}

// A history refuses what it would record as something else, and says what to use.
func TestHistoryOfKindsWithParts(t *testing.T) {
	clients(t, func(t *testing.T, h *mortisetest.History, a, b *mortise.Client) {
		ctx := t.Context()
		group := a.GroupLock("group", "x", "y")
		multi := mortise.NewMultiLock(a.Lock("one"), a.Lock("two"))
		wantPanic(t, func() { _, _, _ = h.Lock(ctx, "a", group) }, `GroupLock "group"`, "LockGroup")
		wantPanic(t, func() { _, _, _ = h.TryLock(ctx, "a", multi) }, `MultiLock "`, "TryLockAll")
		wantPanic(t, func() { _, _, _ = h.LockAll(ctx, "a", multi, a.Lock("one")) }, "two")
		wantPanic(t, func() { _, _, _ = h.LockAll(ctx, "a", mortise.NewMultiLock(group), group) }, "LockGroup")
		type own struct{ mortise.Locker }
		wantPanic(t, func() { _, _, _ = h.Lock(ctx, "a", own{a.Lock("mine")}) }, `"mine"`, "Claim")
		if recorded, _ := h.Len(); recorded != 0 {
			t.Errorf("%d requests are recorded, want none", recorded)
		}

		hold := func(held *mortisetest.Hold, err error) *mortisetest.Hold {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return held
		}
		g, _, err := h.TryLockGroup(ctx, "a", group, "x", "y")
		defer hold(g, err).Unlock()
		m, _, err := h.TryLockAll(ctx, "a", multi, a.Lock("two"), a.Lock("one"))
		defer hold(m, err).Unlock()
		r, _, err := h.TryLockRedlock(ctx, "a", mortise.NewRedlock("red", a))
		defer hold(r, err).Unlock()

		if _, _, err := h.TryLockGroup(ctx, "b", b.GroupLock("group", "y"), "y"); err == nil {
			t.Error("two have a value of a group")
		}
		if _, _, err := h.TryLockAll(ctx, "b", mortise.NewMultiLock(b.Lock("two")), b.Lock("two")); err == nil {
			t.Error("two have a part of a MultiLock")
		}
		if _, _, err := h.TryLockRedlock(ctx, "b", mortise.NewRedlock("red", b)); err == nil {
			t.Error("two have a Redlock")
		}
		h.Check(t)
		if recorded, granted := h.Len(); recorded != 7 || granted != 4 {
			t.Errorf("Len = %d, %d, want 7, 4", recorded, granted)
		}
	})
}
