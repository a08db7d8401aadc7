package behavior

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Of several readers, all are asked but those whose records lie on a server that does not answer, wherever these stand in the list.
func TestAskBesideAFrozenServer(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var silent []string // the keys of two records
		ended := make(map[string]<-chan struct{})
		for i := range 5 {
			c, _ := open(t, s, &mortise.Options{Identity: mortise.Identity{Host: "reader"}})
			hold, ctx, err := c.RWLock("config").Read().Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ended[hold.Owner()] = ctx.Done()
			if i%3 == 0 {
				silent = append(silent, clientID(t, c))
			}
		}
		time.Sleep(2 * time.Second) // until the records are written
		isFrozen := func(key string) bool {
			return slices.ContainsFunc(silent, func(id string) bool { return strings.HasPrefix(key, "mortise:client:{"+id) })
		}
		c := mortise.New(halfFrozen{s.Driver(), isFrozen, new(atomic.Int64)}, &mortise.Options{RetryFor: 5 * time.Second})
		defer c.Close()
		start := time.Now()
		asked, err := c.Ask(t.Context(), "config", "a new release")
		var unlisted *mortise.UnlistedError
		if !errors.As(err, &unlisted) || !errors.Is(err, mortise.ErrUnreachable) || !slices.Equal(unlisted.Servers, []string{"frozen:1"}) {
			t.Errorf("the error is %v, want that of the server that does not answer", err)
		}
		if took := time.Since(start); took > 11*time.Second { // who holds it is read first, with the names of the holders
			t.Errorf("it took %v, want the time for one silent server, twice at most", took)
		}
		if len(asked) != 5 {
			t.Fatalf("%d holders were listed, want 5", len(asked))
		}
		time.Sleep(2 * time.Second)
		for _, h := range asked {
			client, _, _ := strings.Cut(h.Owner, ":")
			if far := slices.Contains(silent, client); h.Asked == far {
				t.Errorf("%s was asked: %v, and its record is on the frozen server: %v", h.Owner, h.Asked, far)
			}
			select {
			case <-ended[h.Owner]:
			default:
				if h.Asked {
					t.Errorf("%s was asked, and its context goes on", h.Owner)
				}
			}
		}
	})
}
