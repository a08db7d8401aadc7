// Package demo shows what a lock is good for: several processes add 1 to a
// number in a file under a lock, one of them is killed while it holds the lock,
// and in the end the number is compared with the updates that were completed.
//
// mortise demo calls [Run], the parent. It starts an embedded Redis and a
// process for each [Worker]; mortise demo worker, which the help does not show,
// calls [Worker.Run] in these. The parent gives orders on their standard input,
// and they report [event]s, lines of JSON, on one pipe that all of them share.
//
//	play.go     the parent: what happens when
//	process.go  a worker's process as the parent sees it
//	worker.go   what a worker does
//	event.go    what a worker reports
//	show.go     the events as people see them
//	verdict.go  what the events amount to, and whether the file is exact
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// What is acceptable, so that a demonstration is over within 20 seconds.
const (
	MinWorkers, MaxWorkers   = 2, 16
	MinDuration, MaxDuration = 2 * time.Second, 15 * time.Second
	// More time than asked for, to start processes and to end them.
	reserve = 5 * time.Second
)

// Config is what a demonstration is to show.
type Config struct {
	Workers  int
	Duration time.Duration // more or less
	NoLock   bool          // lose updates

	Out    io.Writer
	Colour bool
	// Command returns the command, not yet started, of a process that calls
	// w.Run with its standard input and output.
	Command func(w Worker) *exec.Cmd
}

// VerdictError says what is wrong with the file in the end.
type VerdictError struct{ Reason string }

func (e *VerdictError) Error() string { return e.Reason }

// Run shows a demonstration. It returns nil if the file is exact in the end, and
// a [VerdictError] if it is not. No process and no file outlives it.
func Run(ctx context.Context, c Config) error { return newDemonstration(c).run(ctx) }

func newDemonstration(c Config) *demonstration {
	return &demonstration{Config: c, palette: palette{on: c.Colour}}
}

// workerProcess returns the command of a worker that is not yet started.
func (d *demonstration) workerProcess(number int) *exec.Cmd {
	w := Worker{Number: number, File: d.file, Lease: d.lease()}
	if !d.NoLock {
		w.Server = "redis://" + d.server.Addr()
	}
	cmd := d.Command(w)
	cmd.Stdout = d.pipe
	return cmd
}

// lease is that of the lock, or 0 without one. The demonstration spends a
// quarter of its time on contending, a bit more than that on a holder that
// does nothing but hold, at most that on its lease running out, and the rest
// on contending again.
func (d *demonstration) lease() time.Duration {
	if d.NoLock {
		return 0
	}
	return d.Duration / 4
}

// counter reads the file.
func (d *demonstration) counter() (int, error) {
	f, err := os.Open(d.file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return readCounter(f)
}

// createCounter makes the file, in a directory of its own.
func (d *demonstration) createCounter() (err error) {
	if d.dir, err = os.MkdirTemp("", "mortise-demo-"); err != nil {
		return err
	}
	d.file = filepath.Join(d.dir, "counter")
	f, err := os.Create(d.file)
	if err != nil {
		return err
	}
	return errors.Join(writeCounter(f, 0), f.Close())
}

// run does all of it. It returns nil if the file is exact in the end.
func (d *demonstration) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.Duration+reserve,
		fmt.Errorf("the demonstration is not over after %v; is the machine very busy?", d.Duration+reserve))
	defer cancel()
	defer func() { _ = os.RemoveAll(d.dir) }() // else it stays in the directory for such files
	err := d.perform(ctx)
	d.end()
	if err != nil {
		return err
	}
	return d.conclude()
}
