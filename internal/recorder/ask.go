package recorder

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
)

// Ask asks the client of an owner to release the lease with that id. It reports false if that client
// has no record.
//
// since is since when that owner has the lock, as its record says, or zero: another goroutine to which the
// lease is handed off meanwhile is not asked.
func (r *Recorder) Ask(ctx context.Context, owner string, since time.Time, reason string) (asked bool, err error) {
	id, by := script.ClientOf(owner), "somebody"
	c := r.client
	if !r.asleep {
		by = fmt.Sprintf("%s pid %d", r.self.Host, r.self.PID)
	}
	request := record.Request{By: by, Reason: reason, ID: rand.Text()}
	if !since.IsZero() {
		request.Since = since.UnixMilli()
	}
	text := request.Text()
	err = c.Run(func() error {
		p := script.Classic
		if c.Conn().Cluster() {
			if p = script.Sharded; c.Conn().Publish() == script.Classic {
				p = script.Silent // the client looks by itself
			}
		}
		_, err := c.Call(ctx, c.Config().RetryFor, func(ctx context.Context) (err error) {
			asked, err = script.AskClient(ctx, c.Driver(), keyspace.ClientRecord(c.Config().Prefix, id), keyspace.ClientChannel(c.Config().Prefix, id), owner, text, p)
			return err
		})
		return err
	})
	return asked, err
}

// revoke notifies the holds of a lease that their owner was asked to release it.
func (r *Recorder) revoke(id, text string) {
	c := r.client
	request, ok := record.ParseRequest(text)
	if !ok {
		return
	}
	of := c.LeaseBy(id)
	if of == nil || request.Since != 0 && r.since[of] != request.Since {
		return // it was released meanwhile, or handed off
	}
	err := c.Errors().Revoked(request.By, request.Reason)
	c.Emit(outcome.Event{Type: outcome.EventAsked, Lock: of.Name(), Kind: of.Traits().Kind, Owner: id, Call: of.CallSerial(), Err: err})
	of.Revoke(err)
}
