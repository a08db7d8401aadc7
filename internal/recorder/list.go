package recorder

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/survey"
)

// Records returns the records of all clients with the same prefix. If servers of a cluster do not answer, it returns those of the
// others, and an error that names the servers.
func (r *Recorder) Records(ctx context.Context) (list []*record.Client, err error) {
	c := r.client
	err = c.Run(func() error {
		var ids []string
		index := keyspace.ClientIndex(c.Config().Prefix)
		missing := make(survey.Missing)
		_, err := c.Call(ctx, r.others.patience(c.Driver().Shard(index)), func(ctx context.Context) (err error) {
			if _, err = c.Driver().Topology(ctx); err == nil { // from now on it is known which server has what
				ids, err = script.ListClients(ctx, c.Driver(), index, mostRecords)
			}
			return err
		})
		if err = r.others.but(ctx, missing, c.Driver().Shard(index), err); err == nil {
			list, err = r.others.all(ctx, ids, missing)
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
func (o *others) all(ctx context.Context, ids []string, missing survey.Missing) (list []*record.Client, err error) {
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
func (o *others) allOf(ctx context.Context, server string, ids []string) (list []*record.Client, err error) {
	err = survey.RunFor(ctx, o.patience(server), func(ctx context.Context, w *survey.Walk) error {
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
func (o *others) insist(ctx context.Context, ids []string) (list []*record.Client, err error) {
	for attempt := 0; ; attempt++ {
		list, _, err = o.read(ctx, ids...)
		if err == nil || !outcome.IsUnanswered(err) || ctx.Err() != nil || !o.client.Sleep(ctx, lease.PauseAfter(attempt)) {
			return list, err
		}
	}
}

// patience is how long a server of a cluster is waited for.
func (o *others) patience(server string) time.Duration {
	if patience := o.client.Config().RetryFor; patience >= 0 && patience < lookUpWithin || !o.isSilent(server) {
		return patience
	}
	return lookUpWithin
}

// but is [Client.Miss] for what a server has, and notes whether it has answered.
func (o *others) but(ctx context.Context, missing survey.Missing, server string, err error) error {
	failed := survey.MissFrom(ctx, o.client, missing, server, err)
	switch {
	case err == nil:
		o.noteAnswer(server)
	case failed == nil:
		o.noteSilent(server)
	}
	return failed
}
