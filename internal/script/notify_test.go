package script_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// permitHolder uses a semaphore of one kind in a script table.
type permitHolder struct {
	claim   func(t *testing.T, w *world, waiter, n int, client string)
	release func(t *testing.T, w *world, n int, turn string)
	message func(total, back int) int // of a release
}

// manyIDs returns the ids of n permits of one hold.
func manyIDs(hold, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%016x%016x", hold, i))
	}
	return ids
}

var permitHolders = map[string]permitHolder{
	"Semaphore": {
		claim: func(t *testing.T, w *world, waiter, n int, client string) {
			lane := fmt.Sprint("waiter", waiter)
			if ok, _, err := script.SemaphoreAcquire(t.Context(), w, job, first(lane), n, lane, client); ok || err != nil {
				t.Fatalf("%s should wait: %v, %v", lane, ok, err)
			}
		},
		release: func(t *testing.T, w *world, n int, turn string) {
			if _, became, err := script.SemaphoreRelease(t.Context(), w, job, trial, n, script.Classic, turn, 0); became == script.NotHeld || err != nil {
				t.Errorf("the release: %v, %v", became, err)
			}
		},
		message: func(total, _ int) int { return total },
	},
	"PermitSemaphore": {
		claim: func(t *testing.T, w *world, waiter, n int, client string) {
			if ok, _, err := script.PermitAcquire(t.Context(), w, permits, manyIDs(waiter, n), time.Minute, true, client); ok || err != nil {
				t.Fatalf("waiter %d should wait: %v, %v", waiter, ok, err)
			}
		},
		release: func(t *testing.T, w *world, n int, turn string) {
			p := script.Permits{Name: job, Turn: turn}
			if got, _, err := script.PermitRelease(t.Context(), w, p, "", manyIDs(99, n)); got != n || err != nil {
				t.Errorf("the release: %d, %v, want %d", got, err, n)
			}
		},
		message: func(total, back int) int {
			if back == 1 {
				return total
			}
			return back
		},
	},
}

// claimed is a claim of n permits by a waiter of a client.
type claimed struct {
	n      int
	client string
}

// How a release is announced.
const (
	toAll  = "all"
	marked = "marked"
)

// notifications are releases, and which waiters they notify.
var notifications = []struct {
	name            string
	claims          []claimed
	available, back int    // before the release, and by it
	turn            string // how to publish
	notified        string // clients
	announced       string
}{
	{name: "the first", claims: []claimed{{1, "ann"}, {1, "bob"}}, back: 1, notified: "ann", announced: marked},
	{name: "both", claims: []claimed{{1, "ann"}, {1, "bob"}}, back: 2, notified: "ann bob", announced: marked},
	{name: "one of two behind it", claims: []claimed{{1, "ann"}, {2, "bob"}}, back: 2, notified: "ann", announced: marked},
	{name: "those before were notified", claims: []claimed{{1, "ann"}, {1, "bob"}}, available: 1, back: 1, notified: "bob", announced: marked},
	{name: "too few for any", claims: []claimed{{3, "ann"}, {1, "bob"}}, back: 1, announced: marked},
	{name: "enough at last", claims: []claimed{{3, "ann"}, {1, "bob"}}, available: 2, back: 1, notified: "ann", announced: marked},
	{name: "one that does not listen yet", claims: []claimed{{1, ""}, {1, "bob"}}, back: 1, announced: toAll},
	{name: "the second does not listen yet", claims: []claimed{{1, "ann"}, {1, ""}}, back: 1, notified: "ann", announced: marked},
	{name: "one that is gone", claims: []claimed{{1, "eve"}, {1, "bob"}}, back: 1, announced: toAll},
	{name: "one of two is gone", claims: []claimed{{1, "ann"}, {1, "eve"}}, back: 2, notified: "ann", announced: toAll},
	{name: "nobody waits", back: 1, announced: toAll},
	{name: "clients have no channels", claims: []claimed{{1, "ann"}}, back: 1, turn: "-", announced: toAll},
}

// A release notifies the clients of the claims for which the permits suffice now, and did not
// before. All hear of it where that is not enough.
func TestReleaseNotifiesThoseItIsFor(t *testing.T) {
	server := single(t)
	for kind, k := range permitHolders {
		for _, r := range notifications {
			t.Run(kind+"/"+r.name, func(t *testing.T) {
				everywhere(t, server, func(t *testing.T, w *world) {
					news := w.listen(t, permitNews, false)
					clients := map[string]*subscriber{}
					for _, name := range []string{"ann", "bob"} {
						clients[name] = w.subscribe(t, keyspace.TurnChannel(job, name), false)
					}
					total := r.available + r.back
					w.must(t, "SET", job, strconv.Itoa(r.back))
					if ok, _, err := script.PermitAcquire(t.Context(), w, permits, manyIDs(99, r.back), time.Minute, false, ""); !ok || err != nil {
						t.Fatal(ok, err)
					}
					if kind == "PermitSemaphore" { // room for every claim
						w.must(t, "ZADD", keyspace.PermitExpiries(job), "99999999999999", "a", "99999999999999", "b", "99999999999999", "c")
					}
					for i, c := range r.claims {
						k.claim(t, w, i, c.n, c.client)
					}
					w.must(t, "SET", job, strconv.Itoa(r.available))
					turn := "publish"
					if r.turn == "-" {
						turn = ""
					}
					k.release(t, w, r.back, turn)
					w.wantDump(t, job, "string "+strconv.Itoa(total))
					for name, sub := range clients {
						var want []string
						if strings.Contains(r.notified, name) {
							want = []string{"!"}
						}
						sub.want(t, want...)
					}
					var want []string
					switch text := strconv.Itoa(k.message(total, r.back)); r.announced {
					case toAll:
						want = []string{text}
					case marked:
						want = []string{"000" + text}
					}
					news.want(t, want...)
				})
			})
		}
	}
}

// A claim hash that is none, or without the rights to read it, does not keep permits from coming back.
func TestReleaseBesideHostileClaims(t *testing.T) {
	server := single(t)
	for name, value := range map[string][]string{
		"text": {"SET", claims, "x"}, "no claims": {"HSET", claims, "a", "b", "c", "1 2", "d", "-1 1 9 x"},
		"claims of no end": {"HSET", claims, "a", "1 1 99999999999999 ann"},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				news := w.listen(t, permitNews, false)
				w.must(t, "SET", job, "0")
				w.must(t, value...)
				permitHolders["Semaphore"].release(t, w, 1, "publish")
				w.wantDump(t, job, "string 1")
				news.want(t, "1")
			})
		})
	}
}
