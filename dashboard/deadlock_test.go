package dashboard

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// party is a client that holds a lock and waits for another one under it.
func party(id, holds, waits, blocker string, under ...string) mortise.ClientState {
	since := time.UnixMilli(1000)
	return mortise.ClientState{
		ClientInfo: mortise.ClientInfo{ID: id},
		Holds:      []mortise.ClientHold{{Lock: holds, Kind: "lock", Owner: id + ":1", Since: since}},
		Waits:      []mortise.ClientWait{{Lock: waits, Kind: "lock", Since: since, For: blocker + ":1", Under: under}},
	}
}

func lookAt(ms int64, clients ...mortise.ClientState) *watch.Look {
	return &watch.Look{Snapshot: &watch.Snapshot{At: time.UnixMilli(ms)}, Clients: clients}
}

// A cycle is a deadlock only when a later look has seen the same waits; and none is one that records only claim, in
// which a holder may get on, or that a wait only leads into.
func TestDeadlockIsCertain(t *testing.T) {
	t.Parallel()
	a, b := party("a", "x", "y", "b", "a:1"), party("b", "y", "x", "a", "b:1")
	certain := func(looks ...*watch.Look) (n, waits int) {
		s := newScene(nil, nil)
		for _, l := range looks {
			s = newScene(s, l)
		}
		for _, d := range s.deadlocks() {
			n++
			waits += len(d.waits)
		}
		return n, waits
	}
	later := party("b", "y", "x", "a", "b:1")
	later.Waits[0].Since = time.UnixMilli(1001)
	loose := party("b", "y", "x", "a") // another goroutine waits, not the holder
	two := party("b", "y", "x", "a", "b:1")
	two.Waits = append(two.Waits, mortise.ClientWait{Lock: "z", Kind: "lock", Since: time.UnixMilli(1002), For: "c:1", Under: []string{"b:1"}})
	forged := party("b", "y", "x", "a", "b:1")
	forged.Holds[0].Owner = "c:1"
	for name, test := range map[string]struct {
		looks []*watch.Look
		want  int
		waits int
	}{
		"one look":            {[]*watch.Look{lookAt(1000, a, b)}, 0, 0},
		"too soon":            {[]*watch.Look{lookAt(1000, a, b), lookAt(1500, a, b)}, 0, 0},
		"two looks":           {[]*watch.Look{lookAt(1000, a, b), lookAt(1600, a, b)}, 1, 2},
		"another wait":        {[]*watch.Look{lookAt(1000, a, b), lookAt(1600, a, later)}, 0, 0},
		"a gap":               {[]*watch.Look{lookAt(1000, a, b), lookAt(1300, a), lookAt(1700, a, b)}, 0, 0},
		"over":                {[]*watch.Look{lookAt(1000, a, b), lookAt(1600, a, b), lookAt(1900, a)}, 0, 0},
		"another goroutine":   {[]*watch.Look{lookAt(1000, a, loose), lookAt(1600, a, loose)}, 0, 0},
		"two goroutines":      {[]*watch.Look{lookAt(1000, a, two), lookAt(1600, a, two)}, 0, 0},
		"a forged hold":       {[]*watch.Look{lookAt(1000, a, forged), lookAt(1600, a, forged)}, 0, 0},
		"a way into a cycle":  {[]*watch.Look{lookAt(1000, a, b, party("c", "z", "x", "a", "c:1")), lookAt(1600, a, b, party("c", "z", "x", "a", "c:1"))}, 1, 2},
		"a cycle with itself": {[]*watch.Look{lookAt(1000, party("a", "x", "x", "a", "a:1")), lookAt(1600, party("a", "x", "x", "a", "a:1"))}, 1, 1},
	} {
		if n, waits := certain(test.looks...); n != test.want || waits != test.waits {
			t.Errorf("%s: %d deadlocks of %d waits, want %d of %d", name, n, waits, test.want, test.waits)
		}
	}
}

// A deadlock begins with its oldest wait, in whatever order the clients are read and their waits are followed.
func TestDeadlockBeginsWithItsOldestWait(t *testing.T) {
	t.Parallel()
	a, b, c := party("a", "x", "y", "b", "a:1"), party("b", "y", "z", "c", "b:1"), party("c", "z", "x", "a", "c:1")
	b.Waits[0].Since = time.UnixMilli(900)
	for range 50 { // a map has another order each time
		for _, clients := range [][]mortise.ClientState{{a, b, c}, {c, b, a}, {b, a, c}} {
			for _, one := range suspects(nil, lookAt(1000, clients...)) {
				var order string
				for _, l := range one.waits {
					order += l.client.ID
				}
				if order != "bca" {
					t.Fatalf("the waits are those of %s, want bca", order)
				}
			}
		}
	}
}

// A key may show a hold before the record of its client does: the table of clients counts it, as the page of the client shows it.
func TestClientsCountWhatKeysShow(t *testing.T) {
	t.Parallel()
	c, other := mortise.ClientState{ClientInfo: mortise.ClientInfo{ID: "a"}}, mortise.ClientState{ClientInfo: mortise.ClientInfo{ID: "b"}}
	other.Waits = []mortise.ClientWait{{Lock: "x", Kind: "lock", Since: time.UnixMilli(1000), For: "a:1"}}
	l := lookAt(2000, c, other)
	hold := &watch.Hold{Lock: "x", Kind: "lock", Party: watch.Party{Owner: "a:1", Client: "a"}}
	l.Holds = map[watch.HoldKey]*watch.Hold{{Lock: "x", Owner: "a:1"}: hold}
	p := &pen{scene: newScene(nil, l)}
	data, _ := lookClients(nil, parseView(&clientsPage, nil), p)
	if rows := data.(*clientsData).Rows; len(rows) != 2 || rows[0].Holds+rows[1].Holds != 1 {
		t.Errorf("the rows are %+v, want one with one hold", rows)
	}
}
