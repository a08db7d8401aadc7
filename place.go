package mortise

import "github.com/mortise-go/mortise/internal/hub"

// place is what goroutines of one client contend for among themselves, and the key under
// which an owner finds its lease. Locks that differ only in how they are acquired, and may
// re-enter each other, share a place.
type place struct {
	use  use
	name string
}

// use is what a name is used for. Each use is declared next to its kinds of lock.
type use uint8

// class has the properties of all places of one use.
type class struct {
	shared bool // several owners may hold a place at the same time
	admits bool // once one waiter has acquired it, the others need not wait for each other
	twin   use  // see place.twin
	other  use  // see place.other

	// ear opens the client's channel for a place, if it is not that of a plain lock.
	// It is called with Client.mu held.
	ear func(c *Client, p place) *hub.Listener
}

// classes has the class of each use. It does not change after the package is initialized.
var classes []class

// newUse declares a use.
func newUse(c class) use {
	u := use(len(classes))
	c.twin, c.other = u, u
	classes = append(classes, c)
	return u
}

// twinOf declares that names used as u and as v lie in the same hash in Redis.
func (u use) twinOf(v use) use {
	classes[u].twin, classes[v].twin = v, u
	return u
}

// otherSideOf declares that u and v are the two sides of one lock.
func (u use) otherSideOf(v use) use {
	classes[u].other, classes[v].other = v, u
	return u
}

// shared reports whether several owners may hold a place at the same time.
func (p place) shared() bool { return classes[p.use].shared }

// twin returns the place of the locks that lie in the same hash in Redis, but have a queue
// of their own. p's owner has those locks as well. Most places have no twin; then it
// returns p.
func (p place) twin() place { return place{classes[p.use].twin, p.name} }

// other returns the place of the lock's other side, on which p's owner may have a lease as
// well. Most locks have one side; then it returns p.
func (p place) other() place { return place{classes[p.use].other, p.name} }

// under returns the key of a lease on p in the table. If several owners may hold p, the
// key has the id of the lease.
func (p place) under(id string) place {
	if p.shared() {
		return place{use: p.use, name: id}
	}
	return p
}

// table has the trusted leases of a client, by use and name; see [place.under]. It is
// compact, because there may be very many.
type table []map[string]*lease

func newTable() table { return make(table, len(classes)) }

func (t table) at(p place) *lease { return t[p.use][p.name] }

func (t table) put(p place, l *lease) {
	if t[p.use] == nil {
		t[p.use] = make(map[string]*lease)
	}
	t[p.use][p.name] = l
}
