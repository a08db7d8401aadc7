package backlog

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever is added and taken, it is the queue of a list that is searched from one end to the other.
func TestQueue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var q Queue[int]
	var want []int
	for range 20_000 {
		switch n := r.IntN(1000); {
		case n == 0:
			q.Clear()
			want = nil
		case n < 600:
			n %= 50
			q.Add(n)
			want = append(slices.DeleteFunc(want, func(m int) bool { return m == n }), n)
		default:
			got, ok := q.Next()
			if ok != (len(want) > 0) || ok && got != want[0] {
				t.Fatalf("the first is %d, %v, want that of %v", got, ok, want)
			}
			want = want[min(1, len(want)):]
		}
		if q.Len() != len(want) {
			t.Fatalf("the queue has %d, want %d", q.Len(), len(want))
		}
	}
}

// What changes again and again takes no more room.
func TestQueueOfOneThatChangesOften(t *testing.T) {
	var q Queue[string]
	q.Add("first")
	for range 100_000 {
		q.Add("often")
	}
	if n := cap(q.order); n > 100 {
		t.Errorf("the queue of two has room for %d", n)
	}
	if first, _ := q.Next(); first != "first" {
		t.Errorf("the first is %q", first)
	}
}
