package lease

// Place is what goroutines of one client contend for among themselves, and the key under
// which an owner finds its lease. Locks that differ only in how they are acquired, and may
// re-enter each other, share a place.
type Place struct {
	Use  Use
	Name string
}

// Use is what a name is used for. Each kind of object declares its own, or shares that of
// another kind.
type Use uint8

// Class has the properties of all names of one use.
type Class struct {
	Shared bool // several owners may hold a name at the same time
	Admits bool // once one waiter has acquired it, the others need not wait for each other
	Queued bool // its waiters queue in Redis
	Claims bool // the first waiter of a client leaves a claim in Redis, as the others do not ask

	Kind string // as observers and records call what has no traits

	twin  Use // see place.Twin
	other Use // see place.Other
}

// classes has the class of each use. It does not change after the packages are
// initialized.
var classes []Class

// NewUse declares a use. Call it when a package is initialized.
func NewUse(c Class) Use {
	u := Use(len(classes))
	c.twin, c.other = u, u
	classes = append(classes, c)
	return u
}

// Class returns the class of the use.
func (u Use) Class() *Class { return &classes[u] }

// TwinOf declares that names used as u and as v lie in the same hash in Redis.
func (u Use) TwinOf(v Use) Use {
	classes[u].twin, classes[v].twin = v, u
	return u
}

// OtherSideOf declares that u and v are the two sides of one lock.
func (u Use) OtherSideOf(v Use) Use {
	classes[u].other, classes[v].other = v, u
	return u
}

// Shared reports whether several owners may hold a place at the same time.
func (p Place) Shared() bool { return p.Use.Class().Shared }

// Twin returns the place of the locks that lie in the same hash in Redis, but have a queue
// of their own. p's owner has those locks as well. Most places have no twin; then it
// returns p.
func (p Place) Twin() Place { return Place{classes[p.Use].twin, p.Name} }

// Other returns the place of the lock's other side, on which p's owner may have a lease as
// well. Most locks have one side; then it returns p.
func (p Place) Other() Place { return Place{classes[p.Use].other, p.Name} }

// under returns the key of a lease on p in the table. If several owners may hold p, the
// key has the id of the lease.
func (p Place) under(id string) Place {
	if p.Shared() {
		return Place{Use: p.Use, Name: id}
	}
	return p
}

// table has the trusted leases of a client, by use and name; see [place.under]. It is
// compact, because there may be very many.
type table []map[string]*Lease

func newTable() table { return make(table, len(classes)) }

func (t table) at(p Place) *Lease { return t[p.Use][p.Name] }

func (t table) put(p Place, l *Lease) {
	if t[p.Use] == nil {
		t[p.Use] = make(map[string]*Lease)
	}
	t[p.Use][p.Name] = l
}

// leaseOf returns the lease of this client on p with that id, or nil.
func (c *Client) leaseOf(p Place, id string) *Lease {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if l := c.HeldAt(p.under(id)); l != nil && l.Place() == p && l.id == id {
		return l
	}
	return nil
}

// LeaseBy returns a lease of this client with that id, or nil.
func (c *Client) LeaseBy(id string) (found *Lease) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, leases := range c.held {
		for _, l := range leases {
			if l.id == id {
				found = l
			}
		}
	}
	return found
}
