package rueidis

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// Nodes that are frozen, dead or refuse delay an answer by a moment each; without an answer there is the error of one.
func TestHedged(t *testing.T) {
	refusal := &driver.Error{Class: driver.Passing, Err: errors.New("LOADING")}
	for _, test := range []struct {
		name                    string
		frozen, refusing, alive int
		most                    time.Duration
	}{
		{"all answer", 0, 0, 3, 0},
		{"one is frozen", 1, 0, 2, nodeHedge},
		{"all but one are frozen", 4, 0, 1, 4 * nodeHedge},
		{"all but one refuse", 0, 4, 1, 0},
		{"all are frozen", 3, 0, 0, 2*nodeHedge + nodeWait},
		{"all refuse", 0, 3, 0, 0},
		{"there are none", 0, 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				does := make(map[string]string)
				nodes := make(map[string]redis.Client)
				for kind, n := range map[string]int{"frozen": test.frozen, "refusing": test.refusing, "alive": test.alive} {
					for i := range n {
						addr := kind + string(rune('0'+i))
						does[addr], nodes[addr] = kind, nil
					}
				}
				start := time.Now()
				got, err := hedged(t.Context(), nodes, func(ctx context.Context, addr string, _ redis.Client) (string, error) {
					switch does[addr] {
					case "frozen":
						<-ctx.Done()
						return "", driver.ContextError(ctx, driver.Unknown)
					case "refusing":
						return "", refusal
					}
					return addr, nil
				})
				if took := time.Since(start); took > test.most {
					t.Errorf("it took %v, want %v at most", took, test.most)
				}
				if (err == nil) != (test.alive > 0) || err == nil && does[got] != "alive" {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}
