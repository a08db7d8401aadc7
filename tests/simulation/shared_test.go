package simulation

import (
	"github.com/mortise-go/mortise/internal/locktest"
)

// What the tests of this package share with others, under the names that they use.
// A seed fixes what all of the program draws, so bubbles run alone here.
type (
	arrival = locktest.Arrival
	faults  = locktest.Faults
	kind    = locktest.Kind
	taker   = locktest.Taker
)

var (
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
	several       = locktest.SeveralAlone
	wantEmpty     = locktest.WantEmpty
)
