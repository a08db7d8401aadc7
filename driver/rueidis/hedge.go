package rueidis

import (
	"context"
	"sync"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

const (
	nodeWait  = 2 * time.Second        // for the reply of one node
	nodeHedge = 200 * time.Millisecond // before another node is asked as well
)

// hedged returns the first answer of a node of a cluster. It asks one node after the other, and the next one as well while one is
// silent: a node that is frozen delays the answer by nodeHedge. If none answers, it returns the error of one.
func hedged[T any](ctx context.Context, nodes map[string]redis.Client, ask func(ctx context.Context, addr string, node redis.Client) (T, error)) (result T, err error) {
	type answer struct {
		result T
		err    error
	}
	answers := make(chan answer, len(nodes))
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hedge := time.NewTimer(nodeHedge)
	defer hedge.Stop()
	err = &driver.Error{Class: driver.NotSent, Err: redis.ErrNoAddr}
	left := len(nodes)
	for addr, node := range nodes {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, nodeWait)
			defer cancel()
			result, err := ask(ctx, addr, node)
			answers <- answer{result, err}
		})
		hedge.Reset(nodeHedge)
		select {
		case a := <-answers:
			if left--; a.err == nil {
				return a.result, nil
			}
			err = a.err
		case <-hedge.C:
		}
	}
	for ; left > 0; left-- {
		a := <-answers
		if a.err == nil {
			return a.result, nil
		}
		err = a.err
	}
	return result, err
}
