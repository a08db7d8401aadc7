package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
	"github.com/mortise-go/mortise/internal/redistest"
)

// r8 kills the master at the moment in which a client has the lock, and promotes a replica.
var r8 = row{
	name:    "r8",
	title:   "the master is killed when a client has the lock, and a replica takes over",
	n:       20,
	offered: everybody,
	run:     runR8,
}

// failover is a master with two replicas, each behind a network of its own.
type failover struct {
	master   *server
	replicas [2]*server
	links    [2]*redistest.Proxy
}

func runR8(ctx context.Context, t *trials) error {
	holders, err := startProcess(t.system)
	if err != nil {
		return err
	}
	defer holders.kill()
	others, err := startProcess(t.system)
	if err != nil {
		return err
	}
	defer others.kill()
	for _, c := range []struct {
		name    string
		promote int  // which replica; the network of the second is slower
		silent  bool // the second replica receives nothing
	}{
		{"the nearer of two replicas takes over", 0, false},
		{"the farther of two replicas takes over", 1, false},
		{"a replica that receives nothing takes over", 1, true},
	} {
		for i := range t.n {
			o := outcome{Case: c.name}
			f, err := startFailover(t)
			if err == nil {
				err = f.trial(ctx, t, &o, holders, others, c.promote, c.silent, fmt.Sprintf("%d-%t-%d", c.promote, c.silent, i))
			}
			t.close()
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			t.record(o)
		}
	}
	if !t.system.Majority {
		return nil
	}
	for i := range t.n {
		o := outcome{Case: "three independent servers, one of which is lost and comes back empty"}
		err := independent(ctx, t, &o, holders, others, i)
		t.close()
		if err != nil {
			return fmt.Errorf("%s: %w", o.Case, err)
		}
		t.record(o)
	}
	return nil
}

func startFailover(t *trials) (*failover, error) {
	f := &failover{}
	var err error
	if f.master, err = t.startServer(); err != nil {
		return nil, err
	}
	for i := range f.replicas {
		if f.links[i], err = t.startProxy(f.master.addr); err != nil {
			return nil, err
		}
		host, port, _ := net.SplitHostPort(f.links[i].Addr())
		if f.replicas[i], err = t.startServer("--replicaof", host, port); err != nil {
			return nil, err
		}
	}
	for _, r := range f.replicas {
		err := within(30*time.Second, "replica in sync", func() (bool, error) {
			role, err := r.do("ROLE")
			fields, ok := role.([]any)
			return ok && len(fields) > 3 && fields[3] == "connected", err
		})
		if err != nil {
			return nil, err
		}
	}
	f.links[0].Delay(10 * time.Millisecond)
	f.links[1].Delay(time.Duration(40+t.rand.IntN(40)) * time.Millisecond)
	return f, f.settle()
}

// settle returns when the replicas acknowledge at once: the first time takes up to a second.
func (f *failover) settle() error {
	conn, err := redistest.Dial(f.master.addr, "", "")
	if err != nil {
		return err
	}
	defer conn.Close()
	return within(10*time.Second, "both replicas follow", func() (bool, error) {
		if _, err := conn.Do("SET", "settled", "yes"); err != nil {
			return false, err
		}
		start := time.Now()
		n, err := conn.Do("WAIT", "2", "5000")
		return n == int64(2) && time.Since(start) < 400*time.Millisecond, err
	})
}

func (f *failover) trial(ctx context.Context, t *trials, o *outcome, holders, others *process, promote int, silent bool, client string) error {
	lease := t.leaseOr(10 * time.Second)
	name := "failed-over-" + client
	config := contender.Config{Addr: f.master.addr, Lease: lease}
	if t.system.Acknowledges {
		config.Replicas = []string{f.replicas[0].addr, f.replicas[1].addr}
	}
	if err := holders.open(ctx, client, config); err != nil {
		return err
	}
	if silent {
		f.links[1].Strand()
	}
	request := lock(name, name, 2*time.Second)
	request.Client = client
	start := time.Now()
	a, err := holders.ask(ctx, request)
	if err != nil {
		return err
	}
	o.took("granted", time.Since(start))
	granted := a.Error == ""
	f.master.kill()
	for _, link := range f.links { // what is under way is lost with the master
		link.CutAll()
	}
	o.Hit = true
	promoted := f.replicas[promote]
	if _, err := promoted.do("REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	kept, err := promoted.exists(t.system.Key(name))
	if err != nil {
		return err
	}
	o.Said, err = contend(ctx, others, client, name, contender.Config{Addr: promoted.addr, Lease: lease}, granted)
	if o.Said == "one holder" && !kept {
		o.Said = "lost, but nobody else got it in time"
	}
	return errors.Join(err, forgetClient(holders, client))
}

// contend tries to acquire a lock with a new client, and says what that means. It tries for much
// less than a lease.
func contend(ctx context.Context, p *process, client, name string, c contender.Config, granted bool) (string, error) {
	if err := p.open(ctx, client, c); err != nil {
		return "", err
	}
	request := lock(name, name, time.Second)
	request.Client = client
	a, err := p.ask(ctx, request)
	if err != nil {
		return "", err
	}
	err = forgetClient(p, client)
	switch {
	case !granted:
		return "not granted to the first", err
	case a.Error == "":
		return "two holders", err
	}
	return "one holder", err
}

// forgetClient closes a client whose servers may be gone. That can take long, so it does not wait.
func forgetClient(p *process, client string) error {
	_, err := p.start(contender.Request{Do: contender.Close, Client: client})
	return err
}

// independent is a lock on the majority of three servers.
func independent(ctx context.Context, t *trials, o *outcome, holders, others *process, i int) error {
	config := contender.Config{Lease: t.leaseOr(10 * time.Second)}
	var servers [3]*server
	for n := range servers {
		var err error
		if servers[n], err = t.startServer(); err != nil {
			return err
		}
		config.Nodes = append(config.Nodes, servers[n].addr)
	}
	client := fmt.Sprintf("independent-%d", i)
	if err := holders.open(ctx, client, config); err != nil {
		return err
	}
	request := lock(client, client, 2*time.Second)
	request.Client = client
	a, err := holders.ask(ctx, request)
	if err != nil {
		return err
	}
	lost := servers[t.rand.IntN(len(servers))]
	lost.kill()
	if err := lost.start(); err != nil {
		return err
	}
	o.Hit = true
	o.Said, err = contend(ctx, others, client, client, config, a.Error == "")
	return errors.Join(err, forgetClient(holders, client))
}
