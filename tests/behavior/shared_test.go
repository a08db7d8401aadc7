package behavior

import (
	"github.com/mortise-go/mortise/internal/locktest"
)

// What the tests of this package share with others, under the names that they use.
type (
	arrival = locktest.Arrival
	entry   = locktest.Entry
	faults  = locktest.Faults
	jumps   = locktest.Jumps
	kind    = locktest.Kind
	loss    = locktest.Loss
	taker   = locktest.Taker
)

var (
	alone           = locktest.Alone
	acquireLater    = locktest.AcquireLater
	arrive          = locktest.Arrive
	atOnce          = locktest.AtOnce
	blocker         = locktest.Blocker
	bubble          = locktest.Bubble
	closedLatch     = locktest.ClosedLatch
	composites      = locktest.Composites
	crosswise       = locktest.Crosswise
	do              = locktest.Do
	eachKind        = locktest.EachKind
	enter           = locktest.Enter
	errCut          = locktest.ErrCut
	freesLongOwners = locktest.FreesLongOwners
	hang            = locktest.Hang
	kinds           = locktest.Kinds
	leave           = locktest.Leave
	loseReplies     = locktest.LoseReplies
	losses          = locktest.Losses
	multi           = locktest.Multi
	must            = locktest.Must
	mustAcquire     = locktest.MustAcquire
	mustCountDown   = locktest.MustCountDown
	mustFence       = locktest.MustFence
	mustLead        = locktest.MustLead
	mustLock        = locktest.MustLock
	mustMulti       = locktest.MustMulti
	mustRelease     = locktest.MustRelease
	mustResign      = locktest.MustResign
	mustTakePermits = locktest.MustTakePermits
	mustUnlock      = locktest.MustUnlock
	on              = locktest.On
	open            = locktest.Open
	permitsOf       = locktest.PermitsOf
	permitted       = locktest.Permitted
	several         = locktest.Several
	waitLater       = locktest.WaitLater
	wantAvailable   = locktest.WantAvailable
	wantBroken      = locktest.WantBroken
	wantCount       = locktest.WantCount
	wantEmpty       = locktest.WantEmpty
	wantHad         = locktest.WantHad
	wantHolders     = locktest.WantHolders
	wantNotDurable  = locktest.WantNotDurable
	wantPermits     = locktest.WantPermits
	wantRefused     = locktest.WantRefused
	wantState       = locktest.WantState
	wantToken       = locktest.WantToken
)
