package behavior

// Records of clients and histories of locks when a client is closed, refused, or cut off.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/memredis"
)

// A client that is closed at any time leaves no record of what it has released, and no history is lost.
func TestClosedClientLeavesNoRecord(t *testing.T) {
	for held := 200 * time.Millisecond; held < 320*time.Millisecond; held += 4 * time.Millisecond {
		t.Run(held.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				opt := seenAs("api-7")
				opt.History = 5
				a, f := open(t, s, opt)
				b, _ := open(t, s, seenAs("ops"))
				slow := func(context.Context, string) error {
					time.Sleep(10 * time.Millisecond)
					return nil
				}
				f.Set(slow, slow)
				hold, _ := mustLock(t, a.Lock("job"), t.Context())
				time.Sleep(held)
				mustUnlock(t, hold)
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
				wantText(t, "the clients", clientsText(t, b), "")
				if list, err := b.History(t.Context(), "job", 5); err != nil || len(list) != 1 {
					t.Errorf("the history is %+v, %v; want one entry", list, err)
				}
			})
		})
	}
}

func TestHistoryOfALock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		opt := seenAs("api-7")
		opt.History = 5
		c, f := open(t, s, opt)
		for range 20 {
			hold, _ := mustLock(t, c.Lock("job"), t.Context())
			time.Sleep(10 * time.Millisecond)
			mustUnlock(t, hold)
		}
		if n := f.Told(); n > 1 {
			t.Errorf("20 releases took %d scripts more", n)
		}
		time.Sleep(2 * time.Second)
		list, err := c.History(t.Context(), "job", 100)
		if err != nil || len(list) != 5 {
			t.Fatalf("%d entries, %v; want the last 5", len(list), err)
		}
		if a := list[0]; a.Host != "api-7" || a.App != "deploy" || a.End != "released" || a.Held.Round(time.Millisecond) != 10*time.Millisecond || a.How != mortise.HowFree || a.Kind != "lock" || a.Ended.IsZero() {
			t.Errorf("the last acquisition is %+v", a)
		}
	})
}

// A client that may not write histories is seen nevertheless, for as long as it holds something.
func TestRecordWithoutTheRightToHistories(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		opt := seenAs("api-7")
		opt.History = 5
		c, f := open(t, s, opt)
		f.Set(func(_ context.Context, name string) error {
			if name == "history_add" {
				return &driver.Error{Class: driver.Denied, Err: errors.New("NOPERM")}
			}
			return nil
		}, nil)
		kept, _ := mustLock(t, c.Lock("kept"), t.Context())
		for range 60 { // there is always something to write
			hold, _ := mustLock(t, c.Lock("job"), t.Context())
			time.Sleep(time.Second)
			mustUnlock(t, hold)
		}
		all, err := c.Clients(t.Context())
		if err != nil || len(all) != 1 || all[0].Silent > 15*time.Second {
			t.Errorf("the clients are %+v, %v; want one that is not silent", all, err)
		}
		if n := c.Stats().Unrecorded; n < 4 || n > 8 {
			t.Errorf("%d failures are counted, want one for each time that it tried to write the history, ever less often", n)
		}
		f.Set(nil, nil)
		time.Sleep(time.Minute) // the longest pause
		if list, err := c.History(t.Context(), "job", 10); err != nil || len(list) != 5 {
			t.Errorf("with the right, %d entries of the history were written, %v; want 5", len(list), err)
		}
		mustUnlock(t, kept)
	})
}

// A client may be closed in the very instant in which it begins to look at what it has to tell.
func TestClosedInTheInstantOfALook(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		b, _ := open(t, s, seenAs("ops"))
		for range 300 {
			opt := seenAs("api-7")
			opt.History = 5
			a, _ := open(t, s, opt)
			hold, _ := mustLock(t, a.Lock("job"), t.Context())
			time.Sleep(time.Second) // there is a record
			mustUnlock(t, hold)
			time.Sleep(250 * time.Millisecond)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if got := clientsText(t, b); got != "" {
				t.Fatalf("the clients are %s, want none", got)
			}
			list, err := b.History(t.Context(), "job", 1)
			if err != nil || len(list) != 1 || list[0].Owner != hold.Owner() {
				t.Fatalf("the last of the history is %+v, %v; want that of %s", list, err, hold.Owner())
			}
		}
	})
}

// A client that is closed while it holds something says whose leases those are, also the youngest, and waits for nothing any more.
func TestRecordOfAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		b, _ := open(t, s, seenAs("ops"))
		busy, _ := mustLock(t, b.Lock("busy"), t.Context())
		for _, before := range []time.Duration{0, time.Second, time.Minute} {
			a, _ := open(t, s, seenAs("api-7"))
			waited := make(chan struct{})
			go func() {
				defer close(waited)
				_, _, _ = a.Lock("busy").Lock(t.Context()) // until the client is closed
			}()
			time.Sleep(before)
			mustLock(t, a.Lock("leaked"), t.Context())
			mustLock(t, a.Lock("kept").With(mortise.LockOptions{MinHold: time.Hour}), t.Context())
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			<-waited
			want := "api-7: has lock leaked, ops: has lock busy"
			if before == 0 { // that of ops is too young
				want = "api-7: has lock leaked"
			}
			wantText(t, fmt.Sprintf("the clients, after %v,", before), clientsText(t, b), want)
			for _, name := range []string{"leaked", "kept"} {
				if _, err := b.Lock(name).ForceUnlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Minute)
		}
		mustUnlock(t, busy)
	})
}

// However many leases it leaves, the record lists the oldest, as many as it may, and says how many there are.
func TestRecordOfAClosedClientIsBounded(t *testing.T) {
	for _, left := range []int{1, record.Most - 1, record.Most, record.Most + 1, 1000} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				a, _ := open(t, s, seenAs("api-7"))
				b, _ := open(t, s, seenAs("ops"))
				for i := range left {
					mustLock(t, a.Lock(fmt.Sprintf("job %04d", i)), t.Context())
					time.Sleep(time.Millisecond)
				}
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
				all, err := b.Clients(t.Context())
				if err != nil || len(all) != 1 || all[0].HoldCount != left || len(all[0].Holds) != min(left, record.Most) || all[0].Holds[0].Lock != "job 0000" {
					t.Errorf("of %d leases the clients are %+v, %v", left, all, err)
				}
			})
		})
	}
}

// The history has the locks that a client held when it was closed.
func TestHistoryOfAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		opt := seenAs("api-7")
		opt.History = 5
		b, _ := open(t, s, seenAs("ops"))
		for i := range 100 {
			a, f := open(t, s, opt)
			if i%2 > 0 {
				f.Set(nil, func(context.Context, string) error { time.Sleep(time.Millisecond); return nil })
			}
			name := "job " + time.Duration(i).String()
			hold, _ := mustLock(t, a.Lock(name), t.Context())
			time.Sleep(time.Duration(i) * 5 * time.Millisecond)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			list, err := b.History(t.Context(), name, 5)
			if err != nil || len(list) != 1 || list[0].End != "closed" || list[0].Owner != hold.Owner() {
				t.Fatalf("held for %d ms: the history is %+v, %v; want one that ended with the client", 5*i, list, err)
			}
		}
	})
}

// A client that may not write its record writes histories nevertheless, and soon.
func TestHistoryWithoutTheRightToRecords(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		opt := seenAs("api-7")
		opt.History = 5
		c, f := open(t, s, opt)
		f.Set(func(_ context.Context, name string) error {
			if name == "client_index" || name == "client_record" {
				return &driver.Error{Class: driver.Denied, Err: errors.New("NOPERM")}
			}
			return nil
		}, nil)
		kept, _ := mustLock(t, c.Lock("kept"), t.Context())
		for i := range 100 { // there is always a record to write; the pauses become long
			hold, _ := mustLock(t, c.Lock("job"), t.Context())
			time.Sleep(time.Second)
			mustUnlock(t, hold)
			time.Sleep(1100 * time.Millisecond)
			list, err := c.History(t.Context(), "job", 1)
			if err != nil || len(list) != 1 || list[0].Owner != hold.Owner() {
				t.Fatalf("after %d acquisitions the last of the history is %+v, %v; want that of %s", i+1, list, err, hold.Owner())
			}
		}
		if n := c.Stats().Unrecorded; n < 4 || n > 12 {
			t.Errorf("%d failures are counted, want one for each time that it tried to write the record, ever less often", n)
		}
		mustUnlock(t, kept)
	})
}

// A client is seen again within two seconds after Redis is back.
func TestRecordAfterAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{12 * time.Second, 31 * time.Second, time.Minute} {
		t.Run(outage.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				opt := seenAs("api-7")
				opt.TTL = 5 * time.Minute
				a, f := open(t, s, opt)
				b, _ := open(t, s, seenAs("ops"))
				hold, _ := mustLock(t, a.Lock("job"), t.Context())
				time.Sleep(time.Second)
				f.Set(func(context.Context, string) error {
					return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
				}, nil)
				time.Sleep(outage)
				f.Set(nil, nil)
				time.Sleep(2 * time.Second)
				all, err := b.Clients(t.Context())
				if err != nil || len(all) != 1 || all[0].Silent > 2*time.Second {
					t.Errorf("the clients are %+v, %v; want one that is not silent", all, err)
				}
				mustUnlock(t, hold)
			})
		})
	}
}
