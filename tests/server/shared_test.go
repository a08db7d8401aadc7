package server

import (
	"github.com/mortise-go/mortise/internal/locktest"
)

// What the tests of this package share with others, under the names that they use.
type (
	faults = locktest.Faults
	jumps  = locktest.Jumps
	taker  = locktest.Taker
)

var (
	acquireLater    = locktest.AcquireLater
	arrive          = locktest.Arrive
	atOnce          = locktest.AtOnce
	blocker         = locktest.Blocker
	closedLatch     = locktest.ClosedLatch
	composites      = locktest.Composites
	crosswise       = locktest.Crosswise
	enter           = locktest.Enter
	errCut          = locktest.ErrCut
	freesLongOwners = locktest.FreesLongOwners
	hang            = locktest.Hang
	kinds           = locktest.Kinds
	leave           = locktest.Leave
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
	permitsOf       = locktest.PermitsOf
	permitted       = locktest.Permitted
	waitLater       = locktest.WaitLater
	wantAvailable   = locktest.WantAvailable
	wantBroken      = locktest.WantBroken
	wantCount       = locktest.WantCount
	wantHad         = locktest.WantHad
	wantHolders     = locktest.WantHolders
	wantNotDurable  = locktest.WantNotDurable
	wantPermits     = locktest.WantPermits
	wantRefused     = locktest.WantRefused
	wantState       = locktest.WantState
	wantToken       = locktest.WantToken
)
