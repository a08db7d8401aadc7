package mortise

import "github.com/mortise-go/mortise/internal/hub"

// place is what goroutines of one client contend for among themselves, and
// where an owner finds its lease again. Locks that differ only in how they are
// taken, and may re-enter each other, share a place.
type place struct {
	use  use
	name string
}

// use is what a name is used for. Each is declared where the kinds are that use names
// so.
type use uint8

// class is what is true of all places of one use.
type class struct {
	shared bool // several owners may hold a place at the same time
	admits bool // waiters need not wait for each other, once one of them was let in
	twin   use  // see place.twin
	other  use  // see place.other

	// ear opens the client's channel for a place, where it is not that of a plain
	// lock. It is called with Client.mu held.
	ear func(c *Client, p place) *hub.Listener
}

// classes has the class of each use. It does not change any more when the package is
// initialized.
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

// twin is the place of those locks that lie in the same hash in Redis, and are
// contended for in another way: there p's owner has the lock as well. Of most
// there are none, and it is p itself.
func (p place) twin() place { return place{classes[p.use].twin, p.name} }

// other is the place of the lock's other side, of which p's owner may have a lease as
// well. Of most there is none, and it is p itself.
func (p place) other() place { return place{classes[p.use].other, p.name} }

// under returns what a lease on p is kept under: where several may hold p, each
// lease under its own id.
func (p place) under(id string) place {
	if p.shared() {
		return place{use: p.use, name: id}
	}
	return p
}

// table has the leases of a client that are trusted, by use and name; see
// [place.under]. It is as small as can be, because there may be very many.
type table []map[string]*lease

func newTable() table { return make(table, len(classes)) }

func (t table) at(p place) *lease { return t[p.use][p.name] }

func (t table) put(p place, l *lease) {
	if t[p.use] == nil {
		t[p.use] = make(map[string]*lease)
	}
	t[p.use][p.name] = l
}
