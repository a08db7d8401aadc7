package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// output is the standard output. It remembers its first failure: a command whose results are lost
// fails, whatever printed them.
type output struct {
	to     io.Writer
	failed chan struct{} // closed by the first failure

	mu  sync.Mutex
	err error // the first failure; guarded by mu
}

func newOutput(to io.Writer) *output { return &output{to: to, failed: make(chan struct{})} }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
			close(o.failed)
		}
	}
	return n, err
}

// failure returns the error of a command that has written to o, and nil if nothing is lost.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch path := (*fs.PathError)(nil); {
	case o.err == nil:
		return nil
	case errors.Is(o.err, syscall.EPIPE): // silently, as other programs do
		return childStatus{code: exitSignal + int(syscall.SIGPIPE), signal: syscall.SIGPIPE}
	case errors.As(o.err, &path):
		return &exitError{code: exitOutput, err: fmt.Errorf("the output cannot be written: %w", path.Err)}
	}
	return &exitError{code: exitOutput, err: fmt.Errorf("the output cannot be written: %w", o.err)}
}

// keepPipes makes writing to a closed pipe an error, instead of the end of this process: there is
// something to clean up before. Stop ends that.
func keepPipes() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGPIPE)
	return func() { signal.Stop(signals) }
}
