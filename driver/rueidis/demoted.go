package rueidis

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

const (
	// leaveEvery is how often a driver looks for another master at the address, at most. While it finds
	// none, that becomes rarer, up to leaveSeldom.
	leaveEvery  = time.Second
	leaveSeldom = time.Minute
	// mostLeft is how many connections one look gives up.
	mostLeft = 16
)

// departure is when a driver may next look whether its address leads to another server.
type departure struct {
	running atomic.Bool
	next    atomic.Int64 // in ns since the epoch

	pause time.Duration // after the last look; used only by the goroutine that runs
}

// leave makes the client open other connections if err, of a script, says that its server takes no writes,
// and its address leads to a master. Behind one address, such as that of a proxy or of a service, a server
// may hand its role over, while established connections still lead to it; the client itself keeps them.
// Sentinels and clusters tell their clients of a new master.
func (d *Driver) leave(err error) {
	refused, ok := errors.AsType[*driver.Error](err)
	if !ok || !strings.HasPrefix(refused.Reply, "READONLY ") || d.client.Mode() != redis.ClientModeStandalone {
		return
	}
	if time.Now().UnixNano() < d.departure.next.Load() || !d.departure.running.CompareAndSwap(false, true) {
		return
	}
	if !d.enter() {
		d.departure.running.Store(false)
		return
	}
	go func() {
		defer d.running.Done()
		defer d.departure.running.Store(false)
		if d.replace() {
			d.departure.pause = leaveEvery
		} else {
			d.departure.pause = min(max(2*d.departure.pause, leaveEvery), leaveSeldom)
		}
		d.departure.next.Store(time.Now().Add(d.departure.pause).UnixNano())
	}()
}

// replace ends idle connections that lead to a replica until one leads to a master. Only then the one of
// all callers is ended, with QUIT, which lets the replies to earlier commands through: commands of the
// program behind it fail, and if there is no master they would fail for nothing. Commands that block, as
// the client sees it, have idle connections for themselves. replace reports whether there is a master.
func (d *Driver) replace() bool {
	for range mostLeft {
		reply := d.client.Do(d.life, d.client.B().Arbitrary("HELLO").Blocking())
		role, known := roleOf(reply)
		switch {
		case d.life.Err() != nil || !known || isDialError(reply.NonRedisError()):
			return false
		case role == "master":
			d.client.Do(d.life, d.client.B().Arbitrary("QUIT").Build())
			return true
		case role == "replica":
			d.client.Do(d.life, d.client.B().Arbitrary("QUIT").Blocking())
		}
	}
	return false
}

// roleOf returns the role of a server by its reply to HELLO; nothing if there is no reply. known is false
// if it does not tell.
func roleOf(reply redis.RedisResult) (role string, known bool) {
	if reply.NonRedisError() != nil {
		return "", true
	}
	fields, err := reply.AsMap()
	if err != nil {
		return "", driver.ClassifyReply(err.Error()) == driver.Passing
	}
	field := fields["role"]
	role, _ = field.ToString()
	return role, true
}
