package mortise_test

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
	"sync"
)

func TestFairOrderX(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var clients []*mortise.Client
		for range 3 {
			c, _ := open(t, s, nil)
			clients = append(clients, c)
		}
		hold, _, err := clients[0].FairLock("job").Lock(t.Context())
		if err != nil { t.Fatal(err) }
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		const n = 200
		start := time.Now()
		for i := range n {
			wg.Go(func() {
				h, _, err := clients[i%3].FairLock("job").Lock(context.Background())
				if err != nil { t.Error(err); return }
				mu.Lock(); order = append(order, i); mu.Unlock()
				time.Sleep(time.Millisecond)
				if err := h.Unlock(); err != nil { t.Error(err) }
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		if err := hold.Unlock(); err != nil { t.Fatal(err) }
		wg.Wait()
		for i, o := range order { if i != o { t.Fatalf("%v", order) } }
		t.Log(time.Since(start))
	})
}
