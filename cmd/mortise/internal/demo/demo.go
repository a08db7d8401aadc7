// Package demo shows what a lock prevents: several processes add 1 to a number in a file under a
// lock, one of them is killed while it holds the lock, and in the end the number is compared with
// the updates that were completed.
//
// mortise demo calls [Run], the parent. It starts an embedded Redis and a process for each
// [Worker]; the hidden command mortise demo worker calls [Worker.Run] in these. The parent sends
// orders to their standard input, and they report [event]s, lines of JSON, on one pipe that all of
// them share.
//
//	play.go     the parent: the course of events
//	process.go  a worker's process as the parent sees it
//	worker.go   the work of a worker
//	event.go    the reports of a worker
//	show.go     the events as shown to users
//	verdict.go  the evaluation of the events and of the file
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

// The limits, so that a demonstration ends within 20 seconds.
const (
	MinWorkers, MaxWorkers   = 2, 16
	MinDuration, MaxDuration = 2 * time.Second, 15 * time.Second
	// The additional time to start and end processes.
	reserve = 5 * time.Second
)

// Config configures a demonstration.
type Config struct {
	Workers  int
	Duration time.Duration // more or less
	NoLock   bool          // lose updates

	Out    io.Writer
	Colour bool
	// Command returns the command, not yet started, of a process that calls w.Run with its standard
	// input and output.
	Command func(w Worker) *exec.Cmd
}

// VerdictError says what is wrong with the file in the end.
type VerdictError struct{ Reason string }

func (e *VerdictError) Error() string { return e.Reason }

// Run runs a demonstration. It returns nil if the file is exact in the end, and a [VerdictError] if
// it is not. It leaves no process and no file behind.
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

// lease is the lease of the lock, or 0 without one. The demonstration spends a quarter of its time
// on contention, a bit more than that on a holder that only holds, at most that on the end of its
// lease, and the rest on contention again.
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

// createCounter creates the file, in a directory of its own.
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

// run is the whole demonstration. It returns nil if the file is exact in the end.
func (d *demonstration) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.Duration+reserve,
		fmt.Errorf("the demonstration is not over after %v; is the machine very busy?", d.Duration+reserve))
	defer cancel()
	defer func() { _ = os.RemoveAll(d.dir) }() // a failure leaves it in the directory for temporary files
	err := d.perform(ctx)
	d.end()
	if err != nil {
		return err
	}
	return d.conclude()
}
