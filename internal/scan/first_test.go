package scan

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// Servers that are frozen, dead or refuse delay an answer by a moment each; without an answer there is the error of one.
func TestFirst(t *testing.T) {
	const limit = 2 * time.Second // of a question
	refusal := &driver.Error{Class: driver.Passing, Err: errors.New("LOADING")}
	for _, test := range []struct {
		name                    string
		frozen, refusing, alive int
		most                    time.Duration
	}{
		{"all answer", 0, 0, 3, 0},
		{"one is frozen", 1, 0, 2, firstHedge},
		{"all but one are frozen", 4, 0, 1, 4 * firstHedge},
		{"all but one refuse", 0, 4, 1, 0},
		{"all are frozen", 3, 0, 0, 2*firstHedge + limit},
		{"all refuse", 0, 3, 0, 0},
		{"there are none", 0, 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				does := make(map[string]string)
				var servers []string
				for kind, n := range map[string]int{"frozen": test.frozen, "refusing": test.refusing, "alive": test.alive} {
					for i := range n {
						server := kind + string(rune('0'+i))
						does[server] = kind
						servers = append(servers, server)
					}
				}
				start := time.Now()
				got, err := First(t.Context(), servers, func(ctx context.Context, server string) (string, error) {
					switch does[server] {
					case "frozen":
						ctx, cancel := context.WithTimeout(ctx, limit)
						defer cancel()
						<-ctx.Done()
						return "", driver.ContextError(ctx, driver.Unknown)
					case "refusing":
						return "", refusal
					}
					return server, nil
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
