package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

const demoLong = `Shows what a lock is good for, and what happens when its holder dies. It needs
no Redis: it brings one, which listens on a free port of 127.0.0.1 until the
end. That one is for trying things, not for production.

Several processes add 1 to a number in a file, again and again: each reads the
file, thinks for a moment, and writes it back. Only the lock keeps them from
overwriting each other's updates. One of them is killed (SIGKILL) while it has
the lock; when its lease is over, the others go on. In the end the number in
the file is compared with the updates that the processes have completed.

Exit codes:
    0  the file is exact
    1  updates were lost, as they are with --no-lock
   64  wrong usage
   70  the demonstration could not be done
  130  interrupted (SIGINT); 143 by SIGTERM`

// What is acceptable, so that a demonstration is over within 20 seconds.
const (
	demoLeastWorkers, demoMostWorkers   = 2, 16
	demoLeastDuration, demoMostDuration = 2 * time.Second, 15 * time.Second
	// More time than asked for, to start processes and to end them.
	demoReserve = 5 * time.Second
)

func demoCommand(a *app) *cobra.Command {
	d := &demo{out: a.stdout, arg0: os.Args[0]}
	var given duration.Flag
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show processes that contend for a lock, and one that is killed",
		Long:  demoLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if d.duration = time.Duration(given); given == 0 {
				d.duration = d.usualDuration()
			}
			if err := d.validate(a); err != nil {
				return err
			}
			if d.exe, err = os.Executable(); err != nil {
				return fmt.Errorf("find the program, to start it again as a worker: %w", err)
			}
			d.palette = colours(a.stdout, a.getenv)
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return d.run(ctx)
		},
	}
	cmd.Flags().IntVar(&d.workers, "workers", 4, "`number` of processes, 2 to 16")
	cmd.Flags().Var(&given, "duration", "how long it takes, more or less, 2s to 15s (default 8s; 3s with --no-lock)")
	cmd.Flags().BoolVar(&d.noLock, "no-lock", false, "do the same without the lock, and lose updates")
	cmd.AddCommand(demoWorkerCommand(a))
	return cmd
}

func (d *demo) usualDuration() time.Duration {
	if d.noLock {
		return 3 * time.Second
	}
	return 8 * time.Second
}

func (d *demo) validate(a *app) error {
	switch {
	case a.redis != "":
		return usageError("Leave --redis out. To try a Redis of your own: mortise --redis URL run NAME -- CMD.", "the demonstration brings a Redis of its own")
	case d.workers < demoLeastWorkers || d.workers > demoMostWorkers:
		return usageError("", "--workers is %d; it must be between %d and %d", d.workers, demoLeastWorkers, demoMostWorkers)
	case d.duration < demoLeastDuration || d.duration > demoMostDuration:
		return usageError("", "--duration is %v; it must be between %v and %v", d.duration, demoLeastDuration, demoMostDuration)
	}
	return nil
}

// demoWorkerCommand is what the demonstration runs as its workers.
func demoWorkerCommand(a *app) *cobra.Command {
	w := &demoWorker{}
	cmd := &cobra.Command{
		Use:    "worker",
		Short:  "Be a worker of the demonstration, which starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// An interrupt from the terminal reaches the parent too, which
			// knows better what to do with its workers.
			ignoreInterrupt()
			return w.run(cmd.Context(), os.Stdin, a.stdout)
		},
	}
	cmd.Flags().IntVar(&w.number, "number", 0, "which one")
	cmd.Flags().StringVar(&w.file, "file", "", "the counter")
	cmd.Flags().StringVar(&w.server, "server", "", "URL of the embedded Redis")
	cmd.Flags().DurationVar(&w.lease, "lease", 0, "lease of the lock; 0: no lock")
	return cmd
}

// workerProcess returns the command of a worker that is not yet started.
func (d *demo) workerProcess(number int) *exec.Cmd {
	args := []string{"demo", "worker", "--number", strconv.Itoa(number), "--file", d.file}
	if !d.noLock {
		args = append(args, "--server", "redis://"+d.server.Addr(), "--lease", d.lease().String())
	}
	cmd := exec.Command(d.exe, args...)
	cmd.Args[0] = d.arg0 // by which a program with several names knows its own
	cmd.Stdout = d.pipe
	return cmd
}

// lease is that of the lock, or 0 without one. The demonstration spends a
// quarter of its time on contending, a bit more than that on a holder that
// does nothing but hold, at most that on its lease running out, and the rest
// on contending again.
func (d *demo) lease() time.Duration {
	if d.noLock {
		return 0
	}
	return d.duration / 4
}

// counter reads the file.
func (d *demo) counter() (int, error) {
	f, err := os.Open(d.file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return readCounter(f)
}

// createCounter makes the file, in a directory of its own.
func (d *demo) createCounter() (err error) {
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
func (d *demo) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.duration+demoReserve,
		fmt.Errorf("the demonstration is not over after %v; is the machine very busy?", d.duration+demoReserve))
	defer cancel()
	defer func() { _ = os.RemoveAll(d.dir) }() // else it stays in the directory for such files
	err := d.perform(ctx)
	d.end()
	if err != nil {
		return err
	}
	return d.conclude()
}
