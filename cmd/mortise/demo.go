package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/cmd/mortise/internal/demo"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

const demoLong = `Shows what a lock prevents, and what happens when its holder dies. It needs
no Redis: it starts an embedded one, which listens on a free port of 127.0.0.1
until the end. It is for trying things, not for production.

Several processes add 1 to a number in a file, again and again: each reads the
file, thinks for a moment, and writes it back. Only the lock keeps them from
overwriting each other's updates. One of them is killed (SIGKILL) while it holds
the lock; when its lease has ended, the others go on. In the end the number in the
file is compared with the updates that the processes have completed.

Exit codes:
    0  the file is exact
    1  updates were lost, as they are with --no-lock
   64  wrong usage
   70  the demonstration failed
   74  the output cannot be written
  130  interrupted (SIGINT); 143 by SIGTERM: it ends by that signal`

func demoCommand(a *app) *cobra.Command {
	d := demo.Config{Out: a.stdout}
	var given duration.Flag
	var serve bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show processes that contend for a lock, and one that is killed",
		Long:  demoLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if serve {
				return a.serveDemo(cmd)
			}
			if d.Duration = time.Duration(given); given == 0 {
				d.Duration = usualDemo(d.NoLock)
			}
			if err := validateDemo(a, d); err != nil {
				return err
			}
			exe, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the program to start as a worker: %w", err)
			}
			d.Command = func(w demo.Worker) *exec.Cmd { return workerOf(exe, w) }
			d.Colour = coloured(a.stdout.to, a.getenv)
			ctx, stop := a.untilSignal(cmd.Context())
			defer stop()
			return demoError(demo.Run(ctx, d), d.NoLock)
		},
	}
	cmd.Flags().IntVar(&d.Workers, "workers", 4, "`number` of processes, 2 to 16")
	cmd.Flags().Var(&given, "duration", "approximate total time, 2s to 15s (default 8s; 3s with --no-lock)")
	cmd.Flags().BoolVar(&d.NoLock, "no-lock", false, "run without the lock, and lose updates")
	cmd.Flags().BoolVar(&serve, "serve", false, "show a fleet of clients on web pages instead, as mortise serve --demo does")
	a.withoutRedis(cmd)
	cmd.AddCommand(demoWorkerCommand(a))
	return cmd
}

func usualDemo(noLock bool) time.Duration {
	if noLock {
		return 3 * time.Second
	}
	return 8 * time.Second
}

func validateDemo(a *app, d demo.Config) error {
	switch {
	case a.redis != "":
		return usageError("Omit --redis. To use a Redis of your own: mortise --redis URL run NAME -- CMD.", "the demonstration starts a Redis of its own")
	case d.Workers < demo.MinWorkers || d.Workers > demo.MaxWorkers:
		return usageError("", "--workers is %d; it must be between %d and %d", d.Workers, demo.MinWorkers, demo.MaxWorkers)
	case d.Duration < demo.MinDuration || d.Duration > demo.MaxDuration:
		return usageError("", "--duration is %v; it must be between %v and %v", d.Duration, demo.MinDuration, demo.MaxDuration)
	}
	return nil
}

// demoError gives an error of the demonstration its exit code.
func demoError(err error, noLock bool) error {
	var verdict *demo.VerdictError
	if !errors.As(err, &verdict) {
		return err
	}
	hint := ""
	if noLock {
		hint = "This was the point. Without --no-lock the same processes lose none."
	}
	return &exitError{code: exitOther, hint: hint, err: verdict}
}

// coloured reports whether out is a terminal, unless the environment disables colour.
func coloured(out io.Writer, getenv func(string) string) bool {
	f, ok := out.(*os.File)
	if !ok || getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// workerOf returns the command of a worker: this program, with the arguments that demoWorkerCommand
// parses.
func workerOf(exe string, w demo.Worker) *exec.Cmd {
	args := []string{"demo", "worker", "--number", strconv.Itoa(w.Number), "--file", w.File}
	if w.Lease > 0 {
		args = append(args, "--server", w.Server, "--lease", w.Lease.String())
	}
	cmd := exec.Command(exe, args...)
	cmd.Args[0] = os.Args[0] // a program with several names finds its own by this
	return cmd
}

// demoWorkerCommand is the command of the demonstration's workers.
func demoWorkerCommand(a *app) *cobra.Command {
	w := demo.Worker{}
	var lease duration.Flag
	cmd := &cobra.Command{
		Use:    "worker",
		Short:  "Be a worker of the demonstration, which starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// An interrupt from the terminal also reaches the parent, which ends its workers in
			// order.
			ignoreInterrupt()
			w.Lease = time.Duration(lease)
			return w.Run(cmd.Context(), os.Stdin, a.stdout)
		},
	}
	cmd.Flags().IntVar(&w.Number, "number", 0, "which one")
	cmd.Flags().StringVar(&w.File, "file", "", "the counter")
	cmd.Flags().StringVar(&w.Server, "server", "", "URL of the embedded Redis")
	cmd.Flags().Var(&lease, "lease", "lease of the lock; 0: no lock")
	return cmd
}
