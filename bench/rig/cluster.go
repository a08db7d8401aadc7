package rig

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// slots is the number of hash slots of a cluster.
const slots = 16384

// cluster is a Redis Cluster of masters.
type cluster []*redis

// StartCluster starts a cluster of n shards of one redis-server each, on this machine.
func StartCluster(n int) func(pin bool) (Server, error) {
	return func(pin bool) (Server, error) {
		var c cluster
		for range n {
			s, err := startShard(pin)
			if err != nil {
				c.Stop()
				return nil, err
			}
			c = append(c, s)
		}
		if err := c.form(); err != nil {
			c.Stop()
			return nil, fmt.Errorf("form a cluster of %d: %w", n, err)
		}
		return c, nil
	}
}

func startShard(pin bool) (s *redis, err error) {
	for range 5 { // a port can be taken just after it was found
		var bus string
		if bus, err = freePort(); err != nil {
			return nil, err
		}
		if s, err = startRedis(pin, []string{"--cluster-enabled", "yes", "--cluster-port", bus}); err == nil {
			s.bus = bus
			return s, nil
		}
	}
	return nil, err
}

// form gives each node its part of the slots, and returns when all of them know that.
func (c cluster) form() error {
	for i, s := range c {
		first, last := i*slots/len(c), (i+1)*slots/len(c)-1
		if _, err := s.admin.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
			return err
		}
		// Nodes with the same epoch would have to settle that first.
		if _, err := s.admin.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i > 0 {
			_, port, _ := strings.Cut(s.addr, ":")
			if _, err := c[0].admin.Do("CLUSTER", "MEET", "127.0.0.1", port, s.bus); err != nil {
				return err
			}
		}
	}
	for deadline := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		ready, err := c.ready()
		if ready || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("its nodes have not found each other within %v", startLimit)
		}
	}
}

// ready reports whether all nodes see that all slots are served.
func (c cluster) ready() (bool, error) {
	for _, s := range c {
		reply, err := s.admin.Do("CLUSTER", "INFO")
		if err != nil {
			return false, err
		}
		for _, want := range []string{"cluster_state:ok", "cluster_known_nodes:" + strconv.Itoa(len(c)), "cluster_size:" + strconv.Itoa(len(c))} {
			if !strings.Contains(fmt.Sprint(reply), want+"\r\n") {
				return false, nil
			}
		}
	}
	return true, nil
}

func (c cluster) Addr() string {
	var all []string
	for _, s := range c {
		all = append(all, s.addr)
	}
	return strings.Join(all, ",")
}

func (c cluster) Usage() (Usage, error) {
	all := Usage{Commands: map[string]int64{}}
	for _, s := range c {
		u, err := s.Usage()
		if err != nil {
			return Usage{}, err
		}
		for name, n := range u.Commands {
			all.Commands[name] += n
		}
		all.CPU += u.CPU
		all.Memory += u.Memory
		all.Shards = append(all.Shards, u.CPU)
	}
	return all, nil
}

func (c cluster) Stop() {
	var stopped sync.WaitGroup
	for _, s := range c {
		stopped.Go(s.Stop)
	}
	stopped.Wait()
}
