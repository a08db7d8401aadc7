package script

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	electionCampaign = load("election_campaign", "fenced", "election")
	electionProclaim = load("election_proclaim", "election")
	electionRead     = load("election_read", "election")
	electionResign   = load("election_resign", "election")
)

// Election is the operations of an election, for a candidate with a value.
type Election struct {
	hash
	value string
}

// Election returns the operations of the election called name.
func (c *Conn) Election(name, value string) Election { return Election{hash{c, name}, value} }

// Channel returns the channel on which the end of a term is announced.
func (k *Election) Channel() string { return keyspace.ElectionChannel(k.name) }

// Acquire begins a term, as [ElectionCampaign] does.
func (k *Election) Acquire(ctx context.Context, a Attempt) (g Grant, err error) {
	g.Token, g.By, err = ElectionCampaign(ctx, k.driver(), k.name, a.ID, k.value, a.Lease, k.conn.Publish())
	g.OK = g.Token > 0
	return g, err
}

// Release ends a term, as [ElectionResign] does.
func (k *Election) Release(ctx context.Context, id string, _ Turns) (Freed, error) {
	return freed(ElectionResign(ctx, k.driver(), k.name, id, k.conn.Publish()))
}

// A term is renewed like any lock: [LockRenewal].

// ElectionCampaign begins a term of the election key for owner, which must not
// have begun one before. It returns the term's number, or the present leader.
func ElectionCampaign(ctx context.Context, d driver.Driver, key, owner, value string, lease time.Duration, p Publish) (term int64, by Holder, err error) {
	v, err := d.Eval(ctx, driver.Call{
		Script: electionCampaign, Keys: []string{key, keyspace.Token(key)},
		Args: append([]string{owner, millis(lease), value, keyspace.ElectionNews(key)}, p.commands()...),
	})
	if err != nil {
		return 0, Holder{}, err
	}
	switch {
	case v.At(0).Int() == 1 && v.At(1).Int() > 0 && is(v, "ii"):
		return v.At(1).Int(), Holder{}, nil
	case v.At(0).Int() == -1:
		return 0, Holder{}, ErrKind
	case v.At(0).Int() == -2:
		return 0, Holder{}, ErrToken
	case v.At(0).Int() == 0 && is(v, "iis"):
		return 0, Holder{Owner: v.At(2).Str(), Count: 1, TTL: ttl(v.At(1))}, nil
	}
	return 0, Holder{}, unexpected(electionCampaign, v)
}

// ElectionProclaim changes the value of the term of owner for the edition-th
// time. It reports false if owner does not lead. With done true, err may still
// say, with class Denied, that observers could not be notified.
func ElectionProclaim(ctx context.Context, d driver.Driver, key, owner, value string, edition int, p Publish) (done bool, err error) {
	v, err := d.Eval(ctx, driver.Call{
		Script: electionProclaim, Keys: []string{key},
		Args: append([]string{owner, value, strconv.Itoa(edition), keyspace.ElectionNews(key)}, p.commands()...),
	})
	if err != nil {
		return false, err
	}
	if !states(v, 0, 1) {
		return false, unexpected(electionProclaim, v)
	}
	if reason := v.At(1).Str(); reason != "" {
		err = &driver.Error{Class: driver.ClassifyReply(reason), Err: fmt.Errorf("done, but Redis refused to notify observers: %.500s", explained(reason))}
	}
	return v.At(0).Int() == 1, err
}

// Leader is the leader of an election.
type Leader struct {
	Owner, Value string
	Term         int64
	Edition      int           // how often the value was changed
	TTL          time.Duration // -1 if the key has none
}

// ElectionRead returns the leader. It reports false if there is none.
func ElectionRead(ctx context.Context, d driver.Driver, key string) (l Leader, ok bool, err error) {
	v, err := d.Eval(ctx, driver.Call{Script: electionRead, Keys: []string{key}, Args: []string{""}})
	if err != nil {
		return Leader{}, false, err
	}
	switch {
	case v.At(0).Int() == -1:
		return Leader{}, false, ErrKind
	case v.At(0).Int() == 0 && is(v, "i"):
		return Leader{}, false, nil
	case v.At(0).Int() == 1 && is(v, "isisii"):
		return Leader{
			Owner: v.At(1).Str(), Term: v.At(2).Int(), Value: v.At(3).Str(),
			Edition: int(v.At(4).Int()), TTL: ttl(v.At(5)),
		}, true, nil
	}
	return Leader{}, false, unexpected(electionRead, v)
}

// ElectionResign ends the term of owner. It reports false if owner does not
// lead; as with [LockRelease] it may report true with an error.
func ElectionResign(ctx context.Context, d driver.Driver, key, owner string, p Publish) (resigned bool, err error) {
	v, err := d.Eval(ctx, driver.Call{
		Script: electionResign, Keys: []string{key},
		Args: append([]string{owner, keyspace.ElectionChannel(key), keyspace.ElectionNews(key)}, p.commands()...),
	})
	if err != nil {
		return false, err
	}
	if !states(v, 0, 1) {
		return false, unexpected(electionResign, v)
	}
	return v.At(0).Int() == 1, unheard(v.At(1).Str())
}
