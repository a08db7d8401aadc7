package simulation

import (
	"time"

	"github.com/mortise-go/mortise/mortisetest"
)

// What can happen to a client, and to the server. Crash is the end: its link is dead for ever.
var (
	clientFaults = []string{"partition", "freeze", "cut", "crash", "close", "lose replies", "forge"}
	serverFaults = []string{"flush scripts", "loading"}
)

func (w *world) clientFault(c *client, e event, over <-chan struct{}) {
	select {
	case <-time.After(e.at):
	case <-over:
		return
	}
	w.count(e.what)
	calm := w.history.Disturbed(c.name)
	defer calm()
	wait := func() {
		select {
		case <-time.After(e.lasts):
		case <-over:
		}
	}
	switch e.what {
	case "partition":
		c.link.Partition()
		wait()
		c.link.Heal()
	case "freeze":
		c.link.Freeze()
		wait()
		c.link.Thaw()
	case "cut":
		c.link.Cut(e.lasts / 4)
		wait()
	case "crash":
		c.link.Partition()
		<-over
	case "close":
		w.known(c.close())
		<-over
	case "lose replies":
		c.link.Next("", 3, mortisetest.Fault{Lose: mortisetest.Reply})
		wait()
	case "forge":
		for _, channel := range c.link.Channels() {
			c.link.Forge(channel, "0")
			c.link.Forge(channel, "nonsense")
		}
		wait()
	}
}

func (w *world) serverFault(e event) {
	time.Sleep(e.at)
	w.count(e.what)
	switch e.what {
	case "flush scripts":
		w.server.FlushScripts()
	case "loading":
		calm := w.history.Disturbed()
		defer calm()
		w.server.Refuse(mortisetest.Loading)
		time.Sleep(time.Second)
		w.server.Refuse("")
		time.Sleep(time.Second)
	}
}
