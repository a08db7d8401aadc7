package doctor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

func one(t *testing.T, r *doctor.Report, id string) doctor.Finding {
	t.Helper()
	found := r.Find(id)
	if len(found) != 1 {
		t.Fatalf("%d findings %s, want 1", len(found), id)
	}
	return found[0]
}

// record writes the record of a client that was renewed a while ago.
func record(t *testing.T, s *memredis.Server, id, body string, ago time.Duration) {
	t.Helper()
	d := s.Driver()
	defer d.Close()
	now := time.Now().UnixMilli()
	for _, words := range [][]string{
		{"HSET", "mortise:client:{" + id + "}", "body", body, "at", fmt.Sprint(now - ago.Milliseconds()), "edition", "1"},
		{"ZADD", "mortise:clients:{all}", fmt.Sprint(now + 15_000), id},
	} {
		if _, err := d.(driver.Commander).Command(t.Context(), "mem", words...); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSilentClient(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		const alive, silent = "8f1c2b3a-0000-8000-8000-000000000001", "8f1c2b3a-0000-8000-8000-000000000002"
		record(t, s, alive, `{"host":"api-1","pid":1}`, 9*time.Second)
		if f := one(t, examine(t, s, nil), "silent-client"); f.Severity != doctor.OK {
			t.Errorf("%s: %s", f.Severity, f.Found)
		}
		record(t, s, silent, `{"host":"api-2","pid":2}`, 16*time.Second)
		f := one(t, examine(t, s, nil), "silent-client")
		if f.Severity != doctor.Warning || !slices.Equal(f.Names, []string{silent}) || !strings.Contains(f.Found, "api-2 pid 2") || f.Command != "mortise who "+silent {
			t.Errorf("%+v", f)
		}
	})
}

func TestVersionsSideBySide(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		id := func(n int) string { return fmt.Sprintf("8f1c2b3a-0000-8000-8000-%012d", n) }
		record(t, s, id(1), `{"host":"a","mortise":"v1.2.0"}`, time.Second)
		record(t, s, id(2), `{"host":"b","mortise":"v1.2.0"}`, time.Second)
		if f := one(t, examine(t, s, nil), "versions"); f.Severity != doctor.OK {
			t.Errorf("%s: %s", f.Severity, f.Found)
		}
		record(t, s, id(3), `{"host":"c","mortise":"v1.1.0"}`, time.Second)
		f := one(t, examine(t, s, nil), "versions")
		if f.Severity != doctor.Info || !slices.Equal(f.Names, []string{id(3)}) || !strings.Contains(f.Found, `"v1.1.0", "v1.2.0"`) {
			t.Errorf("%+v", f)
		}
	})
}

func TestDeadlock(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		var done []chan struct{}
		for i, names := range [][2]string{{"stock", "orders"}, {"orders", "stock"}} {
			c := mortise.New(s.Driver(), &mortise.Options{Identity: mortise.Identity{Host: fmt.Sprint("api-", i)}})
			defer c.Close()
			hold, under, err := c.Lock(names[0]).Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			done = append(done, ended)
			go func() {
				defer close(ended)
				defer func() { _ = hold.Unlock() }()
				<-time.After(10 * time.Millisecond) // both hold one
				_, _, _ = c.Lock(names[1]).Lock(under)
			}()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r := examine(t, s, nil)
		f := one(t, r, "deadlock")
		if f.Severity != doctor.Critical || f.Count != 2 || !strings.Contains(f.Command, "mortise unlock --ask") || r.Worst != doctor.Critical {
			t.Errorf("%+v", f)
		}
		for _, word := range []string{"api-0", "api-1", `"stock"`, `"orders"`} {
			if !strings.Contains(f.Found, word) {
				t.Errorf("%q is without %s", f.Found, word)
			}
		}
		cancel()
		for _, ended := range done {
			<-ended
		}
		time.Sleep(3 * time.Second)
		if f := one(t, examine(t, s, nil), "deadlock"); f.Severity != doctor.OK {
			t.Errorf("after it: %s: %s", f.Severity, f.Found)
		}
	})
}

// A record that is forged says that a client waits for itself in another's name.
func TestForgedDeadlock(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		const a, b = "8f1c2b3a-0000-8000-8000-00000000000a", "8f1c2b3a-0000-8000-8000-00000000000b"
		// What a tells of itself would make it wait for itself, under a hold of b's.
		record(t, s, a, `{"host":"a","holds":[{"name":"x","kind":"lock","owner":"`+b+`:1","since":1}],`+
			`"waits":[{"name":"x","kind":"lock","since":1,"for":"`+b+`:1","under":[{"name":"x","owner":"`+b+`:1"}]}]}`, time.Second)
		record(t, s, b, `{"host":"b","holds":[{"name":"x","kind":"lock","owner":"`+b+`:1","since":1}]}`, time.Second)
		if f := one(t, examine(t, s, nil), "deadlock"); f.Severity != doctor.OK {
			t.Errorf("%s: %s", f.Severity, f.Found)
		}
	})
}
