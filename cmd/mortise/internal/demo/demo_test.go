package demo

import (
	"bytes"
	"sync"
	"time"
)

// watched is an output that calls a function for every line.
type watched struct {
	mu     sync.Mutex
	bytes  bytes.Buffer
	online func(line string)
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.bytes.Write(p)
	w.mu.Unlock()
	if w.online != nil {
		w.online(string(p))
	}
	return len(p), nil
}

// newDemo returns a demonstration whose workers are programs of the tests.
func newDemo(out *watched) *demonstration {
	return newDemonstration(Config{Workers: 3, Duration: 4 * time.Second, Out: out, Command: workerProgram})
}
