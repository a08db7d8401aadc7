package scan

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// firstHedge is how long a server is waited for before another is asked as well.
const firstHedge = 200 * time.Millisecond

// First returns the first answer of a server of a cluster. It asks one server after the other, and the next one as well while one is
// silent: a server that is frozen delays the answer by a fifth of a second. If none answers, it returns the error of one, once all calls
// of ask have returned: ask bounds its time.
func First[S, T any](ctx context.Context, servers []S, ask func(ctx context.Context, server S) (T, error)) (result T, err error) {
	type answer struct {
		result T
		err    error
	}
	answers := make(chan answer, len(servers))
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hedge := time.NewTimer(firstHedge)
	defer hedge.Stop()
	err = &driver.Error{Class: driver.NotSent, Err: errors.New("no server of the cluster is known")}
	left := len(servers)
	for _, server := range servers {
		asking.Go(func() {
			result, err := ask(ctx, server)
			answers <- answer{result, err}
		})
		hedge.Reset(firstHedge)
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
