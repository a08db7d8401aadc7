package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
)

// census is what the clients with records tell, as it was read once: a list of many locks does not
// ask for each of them.
type census struct {
	clients []mortise.ClientState
	holds   map[string]heldBy           // by owner, and by the id of each permit
	under   map[string][]mortise.Holder // the holders by the name of the lock, according to their clients
	waits   map[string]int              // how many wait, by the name of the lock
	byID    map[string]*mortise.ClientState
	now     time.Time // of Redis' clock; zero if there are no clients
}

// heldBy is a hold and the client that has it.
type heldBy struct {
	client *mortise.ClientState
	mortise.ClientHold
}

// takeCensus reads what the clients publish: what can be read of it, if the error is a mortise.UnlistedError.
func takeCensus(ctx context.Context, client *mortise.Client) (*census, error) {
	clients, err := client.Clients(ctx)
	return newCensus(clients), err
}

// isPart reports whether err says that some servers of a cluster could not be read.
func isPart(err error) bool {
	var unlisted *mortise.UnlistedError
	return errors.As(err, &unlisted)
}

func newCensus(clients []mortise.ClientState) *census {
	c := &census{
		clients: clients, holds: make(map[string]heldBy), under: make(map[string][]mortise.Holder), waits: make(map[string]int),
		byID: make(map[string]*mortise.ClientState),
	}
	for i := range clients {
		one := &clients[i]
		c.byID[one.ID] = one
		if one.Now.After(c.now) {
			c.now = one.Now
		}
		for _, h := range one.Holds {
			if !ownedBy(h.Owner, one.ID, h.Kind) {
				continue // another client's: records can be forged
			}
			c.under[h.Lock] = append(c.under[h.Lock], mortise.Holder{Owner: h.Owner, Count: 1, Client: &one.ClientInfo, Since: h.Since})
			for _, owner := range ownerIDs(h) {
				c.holds[owner] = heldBy{one, h}
			}
		}
		for _, w := range one.Waits {
			c.waits[w.Lock] += 1 + w.More
		}
	}
	return c
}

// permitKind is the kind of a hold of permits.
const permitKind = "permitsemaphore"

// ownedBy reports whether an owner is one of a client. Permits have ids of their own.
func ownedBy(owner, client, kind string) bool {
	return kind == permitKind || strings.HasPrefix(owner, client+":")
}

// ownerIDs returns the owner of a hold, or the ids of its permits as a semaphore shows them.
func ownerIDs(h mortise.ClientHold) []string {
	if h.Kind != permitKind {
		return []string{h.Owner}
	}
	return strings.Split(h.Owner, ",")
}

// name adds to a state what clients publish about its holders.
func (c *census) name(s *mortise.State) {
	for i := range s.Holders {
		h := &s.Holders[i]
		if known, ok := c.holds[h.Owner]; ok {
			h.Client, h.Since, s.Now = &known.client.ClientInfo, known.Since, c.now
		} else if id, _, _ := strings.Cut(h.Owner, ":"); c.byID[id] != nil {
			h.Client = &c.byID[id].ClientInfo
		}
	}
}

// specify says which kind of lock a plain lock is, according to its holder: without a queue, the key of a fair lock looks like
// that of any other.
func (c *census) specify(s *mortise.State) {
	if s.Kind != mortise.KindLock {
		return
	}
	for _, h := range s.Holders {
		if known, ok := c.holds[h.Owner]; ok && known.Lock == s.Name && known.Kind == string(mortise.KindFairLock) {
			s.Kind = mortise.KindFairLock
		}
	}
}

// permit returns the holder of a permit; without a process if that is not known.
func (c *census) permit(name, id string) mortise.Holder {
	if known, ok := c.holds[id]; ok && known.Kind == permitKind && known.Lock == name {
		return mortise.Holder{Owner: id, Count: 1, Client: &known.client.ClientInfo, Since: known.Since}
	}
	return mortise.Holder{Owner: id, Count: 1}
}

// waiting returns how many wait for what is in that state, as far as that is known.
func (c *census) waiting(s *mortise.State) int { return max(len(s.Queue), c.waits[s.Name]) }
