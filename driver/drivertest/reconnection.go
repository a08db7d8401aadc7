package drivertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// reconnection is what takes a while, or must not.
func (s suite) reconnection(t *testing.T) {
	server := redistest.Single(t)
	judged := func(name string, f func(s suite, t *testing.T, server *redistest.Server)) {
		t.Run(name, func(t *testing.T) { s.judged(t, func(t *testing.T, s suite) { f(s, t, server) }) })
	}
	judged("without a pause", suite.withoutAPause)
	judged("silent connection", suite.silentConnection)
	t.Run("refused", func(t *testing.T) { s.staysRefused(t, server) })
	t.Run("silent network", func(t *testing.T) { s.silentNetwork(t, server) })
	t.Run("restarted server", func(t *testing.T) {
		server := redistest.Single(t)
		r := subscribed(t, s.driver(t, at(server)))
		server.Restart(t)
		wantResubscribed(t, server, r, 1, "restarted")
	})
}

// staysRefused: that nothing happens can only be observed for a while.
func (s suite) staysRefused(t *testing.T, server *redistest.Server) {
	s.refusedChannel(t, server, func(confirmed func() int) {
		time.Sleep(300 * time.Millisecond)
		if n := confirmed(); n != 0 {
			t.Fatalf("%d refused channels were asked for again, want 0", n)
		}
	})
}

// withoutAPause: a connection that has served is replaced at once. The fastest of many counts.
func (s suite) withoutAPause(t *testing.T, server *redistest.Server) {
	const served, quick = 40 * time.Millisecond, 8 * time.Millisecond
	r := subscribed(t, s.driver(t, at(server)))
	fastest := time.Hour
	for i := 0; i < 100 && fastest >= quick; i++ {
		time.Sleep(served) // one that breaks at once is replaced after a pause
		n := r.confirmations("re:2")
		start := time.Now()
		server.Must(t, "CLIENT", "KILL", "TYPE", "pubsub")
		r.awaitSubscribed(t, "re:2", n)
		fastest = min(fastest, time.Since(start))
	}
	s.within("the fastest of 100 subscriptions that came back", fastest, quick)
}

func (s suite) silentConnection(t *testing.T, server *redistest.Server) {
	p, d := s.through(t, server, 0)
	r := subscribed(t, d)
	start := time.Now()
	p.Strand() // it stays open, and new ones work
	r.awaitSubscribed(t, "re:1", 1)
	s.within("the replacement of a silent connection", time.Since(start), 20*time.Second)
	wantResubscribed(t, server, r, 1, "stranded")
}

func (s suite) silentNetwork(t *testing.T, server *redistest.Server) {
	p, d := s.through(t, server, 0)
	r := subscribed(t, d)
	n := r.confirmations("re:1")
	p.Stall(redistest.Requests, redistest.Replies)
	server.Must(t, "PUBLISH", "re:1", "in the silence")
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second) // the time that the silence lasts
	defer cancel()
	<-ctx.Done()
	p.Flow()
	// The connection has either been kept, and nothing is lost, or it has been replaced, and
	// the sink was notified.
	r.await(t, "late message, nor confirmation", func() bool {
		return r.subscribed["re:1"] > n || slices.Contains(r.messages, message{"re:1", "in the silence"})
	})
	redistest.Eventually(t, "messages", func() error {
		server.Must(t, "PUBLISH", "re:1", "after it")
		if r.received("re:1", "after it") == 0 {
			return errors.New("not received")
		}
		return nil
	})
}
