package simulation

import (
	"github.com/mortise-go/mortise/internal/locktest"
)

// What the tests of this package share with others, under the names that they use.
type (
	arrival = locktest.Arrival
	faults  = locktest.Faults
	kind    = locktest.Kind
	taker   = locktest.Taker
)

var (
	// What a seed fixes is all of the program's, so no other test may run.
	arrive        = locktest.Arrive
	atOnce        = locktest.AtOnce
	bubble        = locktest.Alone
	closedLatch   = locktest.ClosedLatch
	errCut        = locktest.ErrCut
	hang          = locktest.Hang
	kinds         = locktest.Kinds
	loseReplies   = locktest.LoseReplies
	multi         = locktest.Multi
	mustCountDown = locktest.MustCountDown
	on            = locktest.On
	open          = locktest.Open
	permitsOf     = locktest.PermitsOf
	permitted     = locktest.Permitted
	several       = locktest.Several
	wantEmpty     = locktest.WantEmpty
)
