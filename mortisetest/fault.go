package mortisetest

import (
	"errors"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// Fault is what happens to one call: a script, or a batch of scripts that are sent together. The
// zero value is a call that succeeds at once.
type Fault struct {
	// Lose is the part of the call that gets lost.
	Lose Part
	// Silent has the client not learn that something was lost: it hears nothing, until its
	// context or its timeout ends. Without Silent it learns at once that its connection broke.
	Silent bool
	// Before is how long the request is on its way to the server, and After how long the reply
	// is. A client that gives up meanwhile does not stop the request: the script runs late, as a
	// late copy if the client asks again.
	Before, After time.Duration
	// Refuse is an error reply, such as [OutOfMemory], that the server sends instead of running
	// the script.
	Refuse string
}

// Part is the part of a call that gets lost.
type Part uint8

const (
	// Nothing is lost.
	Nothing Part = iota
	// Request: the script does not run, and the client cannot know.
	Request
	// Reply: the script runs, and the client cannot know. The client learns of the loss at
	// once, also if the script only runs after Before: that is a late copy.
	Reply
	// Connection: there is no connection, so the script does not run, and the client knows.
	Connection
)

// Hit is a sort of fault, for counting.
type Hit string

// What [Link.Hits] and [Server.Hits] count.
const (
	RequestLost    Hit = "requests lost"    // the script did not run
	ReplyLost      Hit = "replies lost"     // the script has run, and nobody hears of it
	RanLate        Hit = "late calls"       // of replies lost: the script ran after the client had given up
	Slow           Hit = "slow calls"       // Before or After
	NotConnected   Hit = "calls not sent"   // there was no connection
	Refused        Hit = "calls refused"    // an error reply
	MessageLost    Hit = "messages lost"    // by OnMessage, or in a partition
	MessageLate    Hit = "messages late"    //
	MessageDoubled Hit = "messages doubled" //
	MessageForged  Hit = "messages forged"  //
	WasCut         Hit = "cuts"             // Link.Cut, also by a failover or a restart
	WasPartitioned Hit = "partitions"       //
	WasFrozen      Hit = "freezes"          //
	FailedOver     Hit = "failovers"        //
	Forgotten      Hit = "writes forgotten" // by failovers
	Restarted      Hit = "restarts"         //
	Evicted        Hit = "keys evicted"     //
	Jumped         Hit = "clock jumps"      //
)

var (
	errBroken  = errors.New("mortisetest: the connection broke")
	errTimeout = errors.New("mortisetest: i/o timeout")
	errNoLink  = errors.New("mortisetest: connection refused")
	errClosed  = errors.New("mortisetest: the link is closed")
)

func unknown(err error) error { return &driver.Error{Class: driver.Unknown, Err: err} }
