package lockmgr

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Records returns the records of all clients with the same prefix. If servers of a cluster do not answer, it returns those of the
// others, and an error that names the servers.
func (c *Client) Records(ctx context.Context) (list []*Record, err error) {
	err = c.Run(func() error {
		var ids []string
		index := keyspace.ClientIndex(c.config.Prefix)
		missing := make(Missing)
		_, err := c.call(ctx, c.others.patience(c.driver.Shard(index)), func(ctx context.Context) (err error) {
			if _, err = c.driver.Topology(ctx); err == nil { // from now on it is known which server has what
				ids, err = script.ListClients(ctx, c.driver, index, mostRecords)
			}
			return err
		})
		if err = c.others.but(ctx, missing, c.driver.Shard(index), err); err == nil {
			list, err = c.others.all(ctx, ids, missing)
		}
		if err != nil {
			list = nil
			return err
		}
		return missing.And(nil)
	})
	return list, err
}

// all reads the records of many clients, from all servers of a cluster at once. One that has not answered a moment ago is not waited
// for as long as a retry lasts.
func (o *others) all(ctx context.Context, ids []string, missing Missing) (list []*Record, err error) {
	byServer := make(map[string][]string)
	for _, id := range ids {
		server := o.shard(id)
		byServer[server] = append(byServer[server], id)
	}
	var reading sync.WaitGroup
	var mu sync.Mutex // guards the results, and missing
	for server, ids := range byServer {
		reading.Go(func() {
			some, failed := o.allOf(ctx, server, ids)
			mu.Lock()
			defer mu.Unlock()
			list = append(list, some...)
			if failed = o.but(ctx, missing, server, failed); err == nil {
				err = failed
			}
		})
	}
	reading.Wait()
	return list, err
}

// allOf reads the records that one server has.
func (o *others) allOf(ctx context.Context, server string, ids []string) (list []*Record, err error) {
	err = walk(ctx, o.patience(server), func(ctx context.Context, w *Walk) error {
		for some := range slices.Chunk(ids, recordsAtOnce) {
			read, err := o.insist(ctx, some)
			if list = append(list, read...); err != nil {
				return err
			}
			w.Answered()
		}
		return nil
	})
	return list, err
}

// insist reads records until the server has answered, or ctx ends.
func (o *others) insist(ctx context.Context, ids []string) (list []*Record, err error) {
	for attempt := 0; ; attempt++ {
		list, _, err = o.read(ctx, ids...)
		if err == nil || !isUnanswered(err) || ctx.Err() != nil || !o.client.pause(ctx, PauseAfter(attempt)) {
			return list, err
		}
	}
}

// patience is how long a server of a cluster is waited for.
func (o *others) patience(server string) time.Duration {
	if patience := o.client.config.RetryFor; patience >= 0 && patience < lookUpWithin || !o.isSilent(server) {
		return patience
	}
	return lookUpWithin
}

// but is [Client.Miss] for what a server has, and notes whether it has answered.
func (o *others) but(ctx context.Context, missing Missing, server string, err error) error {
	failed := o.client.miss(ctx, missing, server, err)
	switch {
	case err == nil:
		o.noteAnswer(server)
	case failed == nil:
		o.noteSilent(server)
	}
	return failed
}
