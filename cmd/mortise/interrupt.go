package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal returns a context that ends when a signal asks the process to end, or when the output
// is lost, with an error for the exit code. Stop stops catching signals.
func (a *app) untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup does so
		signal.Notify(signals, syscall.SIGHUP)
	}
	letPipes := keepPipes()
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			cancel(signalled(s))
		case <-a.stdout.failed:
			cancel(a.stdout.failure())
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		letPipes()
		cancel(nil)
		<-done
	}
}

// signalled returns the error of a command that a signal has ended.
func signalled(s os.Signal) error {
	number, _ := s.(syscall.Signal) // it is one on all systems with a command
	return &exitError{code: exitSignal + int(number), signal: number, err: fmt.Errorf("ended by a signal: %v", s)}
}

// ignoreInterrupt leaves interrupts from the terminal to the parent process.
func ignoreInterrupt() { signal.Ignore(os.Interrupt) }
