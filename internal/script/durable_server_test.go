//go:build server

package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// quiet is a renewal that writes nothing, like that of a kind whose keys have no TTL.
var quiet = driver.NewScript("quiet", "return {1, 0}")

// A server since Redis 7.2 counts the replicas that have the last write of this
// connection. If a renewal wrote nothing, it would count for an earlier write.
func TestRenewAndWaitAlwaysWrites(t *testing.T) {
	master := redistest.Single(t, "--repl-ping-replica-period", "3600")
	replica := redistest.Replica(t, master)
	w := newWorld(t, nil, realWorld(t, master).dial)
	reader := func(key string) script.Renewal { return script.RWReadRenewal(key, me, lease) }
	lock := func(key string) script.Renewal { return script.LockRenewal(key, me, lease) }
	still := func(key string) script.Renewal { return script.Renewal{Script: quiet, Key: key} }
	for name, test := range map[string]struct {
		put    func(key string)
		renews func(key string) script.Renewal
		ttl    time.Duration
	}{
		"longer than asked for": {func(key string) { w.hold(t, key, 10*time.Minute, me, "1") }, lock, 10 * time.Minute},
		"of a reader, longer than asked for": {func(key string) {
			if ok, _, err := script.RWReadAcquire(t.Context(), w, key, me, "", 10*time.Minute); !ok || err != nil {
				t.Fatalf("got %v, %v, want true", ok, err)
			}
		}, reader, 10 * time.Minute},
		"without TTL":          {func(key string) { w.hold(t, key, -1, me, "1") }, still, none},
		"a string without TTL": {func(key string) { w.must(t, "SET", key, "5") }, still, none},
		"behind one that is gone": {func(key string) { w.hold(t, key, 10*time.Minute, me, "1") },
			lock, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w.must(t, "FLUSHALL")
			test.put("job")
			group := []script.Renewal{test.renews("job")}
			if name == "behind one that is gone" {
				group = []script.Renewal{test.renews("gone"), group[0]}
			}
			for range 3 {
				wantRenewedAndAcknowledged(t, w, master, group)
				w.wantTTL(t, "job", test.ttl)
			}
			if got := replica.Int(t, "PTTL", "job"); (got < 0) != (test.ttl < 0) || got > 0 && got > test.ttl.Milliseconds() {
				t.Errorf("the replica has PTTL %d, want that of %v", got, test.ttl)
			}
		})
	}
	t.Run("all gone", func(t *testing.T) {
		w.must(t, "FLUSHALL")
		r := renewAndWait(t.Context(), w, [][]script.Renewal{{lock("job")}}, noWait)[0]
		if r.Err != nil || r.States[0] != script.Gone {
			t.Errorf("got %+v, want it gone", r)
		}
		w.wantDump(t, "job", "nothing")
	})
}

func wantRenewedAndAcknowledged(t *testing.T, w *world, master *redistest.Server, group []script.Renewal) {
	before := offset(t, master)
	if r := renewAndWait(t.Context(), w, [][]script.Renewal{group}, noWait)[0]; r.Err != nil {
		t.Error(r.Err)
	}
	if after := offset(t, master); after == before { // WAIT would change it, if it waited
		t.Error("nothing was written")
	}
	r := renewAndWait(t.Context(), w, [][]script.Renewal{group}, driver.Wait{Replicas: 1, Timeout: time.Minute, Count: true})[0]
	if r.Err != nil || r.States[len(r.States)-1] != script.Renewed || r.Acks != 1 || r.Of != 1 {
		t.Errorf("got %+v, want it renewed and acknowledged by the one replica", r)
	}
}

func offset(t *testing.T, s *redistest.Server) string {
	t.Helper()
	v, err := s.Info("replication", "master_repl_offset")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Without the right to remove a TTL, none is set.
func TestRenewAndWaitWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	for _, right := range []string{"persist", "pttl", "pexpire"} {
		t.Run(right, func(t *testing.T) {
			w := realWorld(t, server)
			w.must(t, "SET", job, "5")
			d := w.login(t, "+@all", "~*", "&*", "-"+right)
			r := renewAndWait(t.Context(), d, [][]script.Renewal{{{Script: quiet, Key: job}}}, noWait)[0]
			if r.Err == nil || driver.ClassOf(r.Err) != driver.Denied {
				t.Errorf("got %v, want an error of class denied", r.Err)
			}
			w.wantDump(t, job, "string 5")
			w.wantTTL(t, job, none)
		})
	}
	t.Run("all", func(t *testing.T) {
		w := realWorld(t, server)
		w.hold(t, job, time.Minute, me, "1")
		d := w.login(t, "~"+job, "+eval", "+evalsha", "+hexists", "+pttl", "+pexpire", "+wait", "+info")
		r := renewAndWait(t.Context(), d, [][]script.Renewal{{script.LockRenewal(job, me, lease)}}, driver.Wait{Timeout: time.Millisecond, Count: true})[0]
		if r.Err != nil || r.States[0] != script.Renewed {
			t.Errorf("got %+v, want it renewed", r)
		}
	})
}

func TestTryWaitWithoutRights(t *testing.T) {
	w := realWorld(t, redistest.Single(t))
	for _, right := range []string{"wait", "info"} {
		d := w.login(t, "+@all", "~*", "&*", "-"+right)
		_, err := script.TryWait(t.Context(), d, job, driver.Wait{Timeout: time.Millisecond, Count: true})
		if err == nil || driver.ClassOf(err) != driver.Denied {
			t.Errorf("without the right to %s: %v, want an error of class denied", right, err)
		}
	}
	_, err := script.TryWait(t.Context(), w, fmt.Sprint(job), driver.Wait{Timeout: time.Millisecond, Count: true})
	if err != nil {
		t.Errorf("with all rights: %v", err)
	}
}
