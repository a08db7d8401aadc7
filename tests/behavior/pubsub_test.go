package behavior

import (
	"context"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// oldCluster is a driver of a cluster without sharded messages.
type oldCluster struct{ driver.Driver }

func (oldCluster) Topology(context.Context) (driver.Topology, error) {
	return driver.Topology{Cluster: true}, nil
}

// On a cluster without sharded messages, both kinds of message are the classic one: SPUBLISH, which
// it does not know, is not asked for, and no release fails because of it.
func TestBothKindsOfMessageWhereThereIsOne(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(oldCluster{s.Driver()}, &mortise.Options{PubSub: mortise.PubSubBoth})
		defer c.Close()
		hold, _, err := c.Lock("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
