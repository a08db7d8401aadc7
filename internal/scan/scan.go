// Package scan asks the servers of a cluster: all of them for their keys, or any of them for what all know.
package scan

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ServerError is the error of one of several servers.
type ServerError struct {
	Server string
	Err    error
}

func (e *ServerError) Error() string { return e.Server + ": " + e.Err.Error() }
func (e *ServerError) Unwrap() error { return e.Err }

// Errors are those of some servers.
type Errors []*ServerError

func (e Errors) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the errors of the servers.
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i, one := range e {
		list[i] = one
	}
	return list
}

// Each returns err with f applied to the error of each server that it names, or to err if it names none.
func Each(err error, f func(error) error) error {
	var all Errors
	if !errors.As(err, &all) {
		return f(err)
	}
	each := make(Errors, len(all))
	for i, one := range all {
		each[i] = &ServerError{one.Server, f(one.Err)}
	}
	return each
}

// Servers returns the servers that err names.
func Servers(err error) (names []string) {
	var all Errors
	errors.As(err, &all)
	for _, one := range all {
		names = append(names, one.Server)
	}
	return names
}

// Func scans one server, and calls fn with each page of its keys.
type Func func(ctx context.Context, server string, fn func(keys []string) error) error

// All scans all servers at once, so that one that does not answer keeps nobody from the keys of the others. It
// calls fn in its own goroutine, with one page after the other. It returns the error of fn, with which it ends, or
// those of the servers, which it names.
func All(ctx context.Context, servers []string, one Func, fn func(keys []string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan []string)
	failed := make(Errors, len(servers))
	var running sync.WaitGroup
	for i, server := range servers {
		running.Go(func() {
			err := one(ctx, server, func(keys []string) error {
				select {
				case pages <- keys:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err != nil {
				failed[i] = &ServerError{server, err}
			}
		})
	}
	go func() {
		running.Wait()
		close(pages)
	}()
	defer func() {
		cancel()
		for range pages { // until all have ended
		}
	}()
	for keys := range pages {
		if err := fn(keys); err != nil {
			return err
		}
	}
	if failed = slices.DeleteFunc(failed, func(one *ServerError) bool { return one == nil }); len(failed) > 0 {
		return failed
	}
	return nil
}
