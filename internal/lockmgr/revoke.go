package lockmgr

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
)

// Ask asks the client of an owner to release the lease with that id. It reports false if that client
// has no record.
//
// since is since when that owner has the lock, as its record says, or zero: another goroutine to which the
// lease is handed off meanwhile is not asked.
func (c *Client) Ask(ctx context.Context, owner string, since time.Time, reason string) (asked bool, err error) {
	id, by := script.ClientOf(owner), "somebody"
	if c.recorder != nil {
		by = fmt.Sprintf("%s pid %d", c.recorder.self.Host, c.recorder.self.PID)
	}
	request := record.Request{By: by, Reason: reason, ID: rand.Text()}
	if !since.IsZero() {
		request.Since = since.UnixMilli()
	}
	text := request.Text()
	err = c.Run(func() error {
		p := script.Classic
		if c.conn.Cluster() {
			if p = script.Sharded; c.conn.Publish() == script.Classic {
				p = script.Silent // the client looks by itself
			}
		}
		_, err := c.call(ctx, c.config.RetryFor, func(ctx context.Context) (err error) {
			asked, err = script.AskClient(ctx, c.driver, keyspace.ClientRecord(c.config.Prefix, id), keyspace.ClientChannel(c.config.Prefix, id), owner, text, p)
			return err
		})
		return err
	})
	return asked, err
}

// revoke notifies the holds of a lease that their owner was asked to release it.
func (c *Client) revoke(id, text string) {
	request, ok := record.ParseRequest(text)
	if !ok {
		return
	}
	var of *Lease
	c.mu.Lock()
	for _, leases := range c.held {
		for _, l := range leases {
			if l.id == id {
				of = l
			}
		}
	}
	c.mu.Unlock()
	if of == nil || request.Since != 0 && c.recorder.since[of] != request.Since {
		return // it was released meanwhile, or handed off
	}
	err := c.errors.Revoked(request.By, request.Reason)
	c.tell(Event{Type: EventAsked, Lock: of.Name(), Kind: of.traits.Kind, Owner: id, Call: of.call(), Err: err})
	of.asked(err)
}

// asked ends the contexts of the holds of l, or lets the client's OnAsk decide. The lease lasts on:
// others have the lock once it is released, and it is not handed off any more.
func (l *Lease) asked(err error) {
	l.mu.Lock()
	l.revoked = true
	var holds []*Hold
	for h := l.holds; h != nil; h = h.next {
		holds = append(holds, h)
	}
	l.mu.Unlock()
	for _, h := range holds {
		if up := HoldFrom(h.parent); up != nil && up.has(l) {
			h = up // the caller has the hold of the composite
		}
		if decide := l.client.config.OnAsk; decide != nil {
			l.client.background(func(context.Context) { decide(h, err) })
			continue
		}
		h.cancel(&ending{err: err, cause: l.client.errors.Operation("hold", h.Name(), err)})
	}
}

// has reports whether l is a part of h, the hold of a composite.
func (h *Hold) has(l *Lease) bool {
	c, ok := h.of.(*composite)
	return ok && slices.ContainsFunc(c.lasting(), func(m *member) bool { return m.lease() == l })
}
