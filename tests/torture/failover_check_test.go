package torture

import (
	"testing"
	"time"
)

// A failover leaves one master: where there are two, each gives the same lock to another client, and
// the witness would take that for a mistake of the library.
func TestReplacedMasterIsNone(t *testing.T) {
	t.Parallel()
	r := &round{plan: plan{nemesis: &nemesis{}}, t: t, deployment: deploy(t, "sentinel", nil), witness: newWitness(t, nil, short)}
	over, seen := make(chan struct{}), make(chan int)
	go func() {
		most := 0
		for {
			masters := 0
			for _, s := range r.servers {
				if role, err := s.Info("replication", "role"); err == nil && role == "master" {
					masters++
				}
			}
			most = max(most, masters)
			select {
			case <-t.Context().Done():
				return
			case <-over:
				seen <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	r.replaceMaster()
	close(over)
	if most := <-seen; most != 1 {
		t.Errorf("there were %d masters at once, want 1", most)
	}
}
