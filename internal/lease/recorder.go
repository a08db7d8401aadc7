package lease

import (
	"context"

	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/record"
)

// Recorder shows others what a client holds and waits for, and knows what they show. No lock depends on it.
type Recorder interface {
	// Changed notes that the client holds or waits for something else than before. It may be called with Client.Mu held, and is quick.
	Changed()
	// Ended notes that a hold has ended, for the history of its lock, as the event of the call says.
	Ended(o *Call, e outcome.Event, reason string)
	// Identify adds what is known of the holder to an error of a refusal. The end of ctx, or of a wait by
	// its own limit, is not delayed for it: then only what was read until then is added.
	Identify(ctx context.Context, err error)
	// Known returns the record of the client of an owner, if it was read before, or nil.
	Known(owner string) *record.Client
	// Leave notes that the client is closed, and what it holds; and End that those holds have ended.
	Leave(held []*Lease)
	End()
}

// unrecorded is the recorder of a client that has none.
type unrecorded struct{}

func (unrecorded) Changed()                           {}
func (unrecorded) Ended(*Call, outcome.Event, string) {}
func (unrecorded) Identify(context.Context, error)    {}
func (unrecorded) Known(string) *record.Client        { return nil }
func (unrecorded) Leave([]*Lease)                     {}
func (unrecorded) End()                               {}
