package mortise

// Stats holds a client's gauges, and its counters since [New].
type Stats struct {
	Held    int // leases that it holds now
	Waiting int // goroutines that wait now
	Queues  int // names, or parts of them, that they wait for

	// Acquired counts calls that have acquired something, re-entries included. Each lock of a
	// MultiLock, and each server of a Redlock, counts by itself, here and below.
	Acquired  uint64
	Refused   uint64 // calls that have failed
	Granted   uint64 // of the acquired: granted by the release of another client
	HandedOff uint64 // of the acquired: handed off inside this client
	Lost      uint64 // leases that were lost
	Renewed   uint64 // renewals of a lease that Redis has confirmed
	Failed    uint64 // renewals of a lease that have failed
	Gaps      uint64 // interruptions of a subscription
	Records   uint64 // writes of the client's record
	// Unrecorded counts failures to write the client's record or its history, such as for
	// lack of rights. They have no effect on locks.
	Unrecorded uint64
}

// Err returns why Redis does not serve the client: the last failure of a call that the client repeats, since Redis has last answered
// one. It matches [ErrUnreachable]. It is nil if there was none. Err does no I/O, so it says nothing of a Redis that nobody has
// asked. It is for those who show what a long wait is for; a call that gives up returns the same.
func (c *Client) Err() error { return c.core.Err() }

// Stats returns the numbers of the client. It does no I/O, and is quick.
func (c *Client) Stats() Stats { return Stats(c.core.Stats()) }
