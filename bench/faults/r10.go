package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
)

// r10 makes Redis lose locks that are held.
var r10 = row{
	name:    "r10",
	title:   "Redis loses a lock that is held",
	n:       20,
	offered: everybody,
	run:     runR10,
}

func runR10(ctx context.Context, t *trials) error {
	for _, c := range []struct {
		name string
		lose func(s *server, keys []string) error
	}{
		{"restart without persistence", func(s *server, _ []string) error { s.kill(); return s.start() }},
		{"DEL of the key", func(s *server, keys []string) error {
			_, err := s.do(append([]string{"DEL"}, keys...)...)
			return err
		}},
		{"FLUSHALL", func(s *server, _ []string) error { _, err := s.do("FLUSHALL"); return err }},
	} {
		if err := forget(ctx, t, c.name, c.lose); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		t.close()
	}
	return nil
}

// forget holds n locks, acquired at different moments of a lease, loses all at once, and waits for
// the holders to be told.
func forget(ctx context.Context, t *trials, named string, lose func(*server, []string) error) error {
	lease := t.leaseOr(6 * time.Second)
	s, err := t.startServer()
	if err != nil {
		return err
	}
	p, err := t.startProcess(ctx, contender.Config{Addr: s.addr, Lease: lease})
	if err != nil {
		return err
	}
	var keys []string
	told := make([]<-chan contender.Answer, t.n)
	for i := range t.n {
		name := fmt.Sprintf("forgotten-%d", i)
		keys = append(keys, t.system.Key(name))
		if _, err := p.must(ctx, lock(name, name, 10*time.Second)); err != nil {
			return err
		}
		if told[i], err = p.start(contender.Request{Do: contender.Lost, Hold: name, Wait: 4 * lease}); err != nil {
			return err
		}
		time.Sleep(time.Duration(t.rand.Int64N(int64(lease) / int64(t.n))))
	}
	for i, key := range keys {
		if held, err := s.exists(key); err != nil {
			return err
		} else if !held || len(told[i]) > 0 {
			return fmt.Errorf("%s is in Redis: %v; its holder was told of a loss: %v; before the fault", key, held, len(told[i]) > 0)
		}
	}
	start := time.Now()
	if err := lose(s, keys); err != nil {
		return err
	}
	answers := make(chan outcome, t.n)
	for i := range t.n {
		go func() {
			o := outcome{Case: named, Said: "not told"}
			if a, err := p.await(ctx, told[i], 4*lease); err != nil {
				o.Said = err.Error()
			} else if a.Error == "" {
				o.Said, o.Hit = "told", true
				o.took("told", time.Since(start))
			} else {
				o.Hit = a.Is == contender.Silent
			}
			answers <- o
		}()
	}
	for range t.n {
		t.record(<-answers)
	}
	return nil
}
