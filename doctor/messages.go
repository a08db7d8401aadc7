package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var publish = driver.NewScript("doctor_publish", "return redis.call(ARGV[1], ARGV[2], ARGV[3])")

// messages sends a message in each form in which releases are announced, and waits for it.
func (e *exam) messages(ctx context.Context) {
	e.message(ctx, "messages", false)
	if e.topology.Sharded {
		e.message(ctx, "sharded-messages", true)
	}
}

func (e *exam) message(ctx context.Context, id string, sharded bool) {
	const slow = 100 * time.Millisecond
	command, subscribe := "publish", "subscribe"
	if sharded {
		command, subscribe = "spublish", "ssubscribe"
	}
	name := e.o.Prefix + probe + ":" + rand.Text()
	channel := e.channel(name)
	ear := &ear{subscribed: make(chan struct{}, 1), refused: make(chan error, 1), heard: make(chan string, 1)}
	sub := e.d.Subscriber(ear)
	defer func() { _ = sub.Close() }() // nothing is lost
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	f := Finding{ID: id, Group: GroupMessages, Severity: Critical, Do: "Waiters ask once a second instead. Look at what is between: a proxy that does not know these messages, a firewall, a cluster whose servers do not reach each other."}
	sub.Subscribe(channel, sharded)
	select {
	case <-ear.subscribed:
	case err := <-ear.refused:
		e.add(e.unheard(id, err, subscribe, channel))
		return
	case <-ctx.Done():
		f.Found = "the server does not confirm a subscription within " + short(limit)
		e.add(f)
		return
	}
	start := time.Now()
	key := "" // elsewhere than on a cluster the user may have no right to it
	if e.topology.Cluster {
		key = name
	}
	if _, err := e.eval(ctx, publish, key, command, channel, "0"); err != nil {
		e.add(e.unheard(id, err, command, channel))
		return
	}
	select {
	case <-ear.heard:
	case <-ctx.Done():
		f.Found = "a message that was published did not come within " + short(limit)
		e.add(f)
		return
	}
	took := time.Since(start)
	f = Finding{ID: id, Group: GroupMessages, Severity: OK, Found: fmt.Sprintf("a message took %s there and back (%s)", short(took), command)}
	if took > slow {
		f.Severity = Warning
		f.Do, f.Command = "Each hand-over from one process to another takes that long. Look at the way to the server, and at what else it does.", e.cli("", "--latency")
	}
	e.add(f)
}

// channel returns a channel that clients with that name would use: of the first kind that must work.
func (e *exam) channel(name string) string {
	for _, kind := range e.o.Kinds {
		for _, p := range kind.row().patterns {
			switch {
			case p[0] != '&' || p == latch:
			case strings.Contains(name, "{"): // as in package keyspace
				return p[1:] + name
			default:
				return p[1:] + "{" + name + "}"
			}
		}
	}
	return keyspace.LockChannel(name)
}

// unheard returns the finding for a message that the user may not send or receive.
func (e *exam) unheard(id string, err error, command, channel string) Finding {
	f := e.unknown(id, GroupMessages, err, command)
	if !mayNot(err) {
		f.Severity = Warning
		return f
	}
	f.Found = "the user has no right to " + command + " on the channels of locks"
	if len(e.o.Kinds) > 0 && !slices.ContainsFunc(e.o.Kinds, Kind.hears) {
		return Finding{ID: id, Group: GroupMessages, Severity: OK, Found: f.Found + ", and needs none for what --kind names"}
	}
	f.Do = "Without it, a waiter is not told that a lock is free. mortise acl prints all the rights that locks need."
	if e.o.Prefix == "" {
		f.Do += " If the user may use some names only, examine with --prefix."
	}
	f.Command = e.acl(e.narrowest()...)
	return f
}

// ear hears the message.
type ear struct {
	subscribed chan struct{}
	refused    chan error
	heard      chan string
}

// Message implements driver.Sink.
func (e *ear) Message(_, payload string) {
	select {
	case e.heard <- payload:
	default:
	}
}

// Subscribed implements driver.Sink.
func (e *ear) Subscribed(string) {
	select {
	case e.subscribed <- struct{}{}:
	default:
	}
}

// Refused implements driver.Sink.
func (e *ear) Refused(_ string, err error) {
	select {
	case e.refused <- err:
	default:
	}
}
