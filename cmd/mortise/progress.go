package main

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// showProgress shows the text of long work in the status line, until stop is called.
func (a *app) showProgress(ctx context.Context, text func(past time.Duration) string) (stop func()) {
	if !a.line.erasable || isPipe(os.Stdout) { // at its other end a pager may need the terminal
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		start := time.Now()
		for sleep(ctx, patience) {
			a.line.set(text(time.Since(start).Truncate(time.Second)))
		}
	}()
	return func() {
		cancel()
		<-done
		a.line.clear()
	}
}

// isPipe reports whether f is a pipe.
func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// counting is a driver that counts the keys that it lists.
type counting struct {
	driver.Driver
	scanner driver.Scanner
	keys    atomic.Int64
}

// Scan implements driver.Scanner.
func (c *counting) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	return c.scanner.Scan(ctx, match, func(keys []string) error {
		c.keys.Add(int64(len(keys)))
		return fn(keys)
	})
}
