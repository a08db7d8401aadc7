package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/cmd/mortise/internal/guard"
)

const (
	defaultTTL       = 30 * time.Second
	defaultKillAfter = 5 * time.Second
	shortestTTL      = 100 * time.Millisecond // of a lease that is renewed
	shortestWait     = 50 * time.Millisecond  // that is one: the answer of Redis may take as long
	longestLease     = 366 * 24 * time.Hour
)

// plan is what a run will do. It does not depend on Redis.
type plan struct {
	name string
	path string   // of the program
	argv []string // its own name included

	nonblock bool
	wait     time.Duration // 0: no limit
	began    time.Time     // when the wait did
	conflict int           // exit code if the lock could not be acquired
	verbose  bool

	ttl    time.Duration // of the lease, after each renewal
	lock   mortise.LockOptions
	what   string  // the kind of thing that is held: "lock"
	claims []claim // the same in detail: one, or several with --multi
	open   func(c *mortise.Client, p *plan) subject
	keep   bool // after a loss, acquire it again and start again

	history int // how many acquisitions each lock keeps; 0: it records none

	warn      bool // when the lock is lost, only warn
	signal    syscall.Signal
	killAfter time.Duration
	grace     time.Duration
}

// newPlan checks the flags, and finds the program, before the lock is acquired.
func newPlan(cmd *cobra.Command, f *runFlags, args []string) (*plan, error) {
	name, argv, err := f.splitArgs(cmd, args)
	if err != nil {
		return nil, err
	}
	p := &plan{name: name, argv: argv, what: "lock", nonblock: f.nonblock, wait: time.Duration(f.wait), conflict: f.conflict, verbose: f.verbose}
	if name == "" {
		return nil, usageError("", "the NAME is empty")
	}
	if p.history, err = f.historyLength(cmd); err != nil {
		return nil, err
	}
	waits := cmd.Flags().Changed("wait")
	switch {
	case waits && f.nonblock:
		return nil, usageError("", "--nonblock and --wait exclude each other")
	case waits && p.wait < shortestWait:
		p.nonblock, p.wait = true, 0
	case f.conflict < 0 || f.conflict > 255:
		return nil, usageError("", "--conflict-exit-code (-E) is %d; it must be from 0 to 255", f.conflict)
	}
	if err = p.choose(cmd, f); err != nil {
		return nil, err
	}
	if err := p.lease(cmd, f); err != nil {
		return nil, err
	}
	if err := p.loss(cmd, f); err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("command") {
		p.argv = []string{"sh", "-c", f.command}
	}
	return p, p.find()
}

// lease checks how long the lock lasts. Unless the user names a TTL, it is no longer than the time
// for which the lock may be held.
func (p *plan) lease(cmd *cobra.Command, f *runFlags) (err error) {
	changed := cmd.Flags().Changed
	if p.ttl, err = lengthOf("--ttl", f.ttl, shortestTTL); err != nil {
		return err
	}
	if changed("max-hold") {
		if p.lock.MaxHold, err = lengthOf("--max-hold", f.maxHold, time.Millisecond); err != nil {
			return err
		}
	}
	if p.lock.MaxHold != 0 && !changed("ttl") {
		p.ttl = min(p.ttl, max(p.lock.MaxHold, shortestTTL))
	}
	if changed("min-hold") {
		return p.minHold(f)
	}
	return nil
}

// minHold checks how long the lock stays taken at least.
func (p *plan) minHold(f *runFlags) (err error) {
	if p.lock.MinHold, err = lengthOf("--min-hold", f.minHold, time.Millisecond); err != nil {
		return err
	}
	if most := p.lock.MaxHold; most != 0 && p.lock.MinHold > most {
		return usageError("", "--min-hold is %v, and --max-hold %v; the lock cannot stay taken for longer than it may be held", p.lock.MinHold, most)
	}
	if kind := p.claims[0].kind; len(p.claims) > 1 || kind == claimRead || kind == claimPermit {
		return usageError("Use it with one lock: alone, or with --fair, --fence or --write.", "--min-hold excludes --read, --sem and --multi: what these acquire is free as soon as it is released")
	}
	return nil
}

// lengthOf returns the value of a flag that says how long a lock lasts, in the resolution of Redis.
func lengthOf(flag string, value duration.Flag, least time.Duration) (time.Duration, error) {
	d := time.Duration(value).Truncate(time.Millisecond)
	switch {
	case d < least:
		return 0, usageError("", "%s must be at least %v", flag, least)
	case d > longestLease:
		return 0, usageError("", "%s is %v; the maximum is a year", flag, d)
	}
	return d, nil
}

// loss checks what to do when the lock is lost. The hold's context ends early enough before the key
// can expire for the command to be asked to end, to be killed after a while, and to be gone.
func (p *plan) loss(cmd *cobra.Command, f *runFlags) error {
	switch f.onLost {
	case "kill":
	case "warn":
		p.warn = true
	default:
		return usageError("", "--on-lost is %q; it must be kill or warn", f.onLost)
	}
	var ok bool
	if p.signal, ok = guard.ParseSignal(f.signal); !ok {
		return usageError("Use a name such as TERM or SIGTERM, or a number.", "--signal is %q, which is not a signal", f.signal)
	}
	p.killAfter = time.Duration(f.killAfter)
	switch given := cmd.Flags().Changed("kill-after"); {
	case !given:
		p.killAfter = usualKillAfter(p.ttl)
	case p.killAfter > p.ttl/2:
		return usageError("", "--kill-after is %v; the maximum is %v, half of %s", p.killAfter, p.ttl/2, p.ttlFrom(cmd))
	}
	if cmd.Flags().Changed("grace") {
		var err error
		if p.grace, err = lengthOf("--grace", f.grace, time.Millisecond); err != nil {
			return err
		}
	}
	p.reserve()
	return nil
}

// ttlFrom says which flag has set the TTL.
func (p *plan) ttlFrom(cmd *cobra.Command) string {
	changed := cmd.Flags().Changed
	switch {
	case changed("ttl"):
		return fmt.Sprintf("--ttl %v", p.ttl)
	case p.lock.MaxHold != 0 && p.ttl < defaultTTL:
		return fmt.Sprintf("--max-hold %v (or of --ttl, if that is given)", p.ttl)
	}
	return fmt.Sprintf("the default --ttl of %v", p.ttl)
}

// over reports whether a hold was lost because the time of --max-hold is over, and how long that was.
func (p *plan) over(cause error) (time.Duration, bool) {
	var lost *mortise.LostError
	if p.lock.MaxHold == 0 || !errors.As(cause, &lost) || lost.Reason != mortise.LostExpired {
		return 0, false
	}
	return p.lock.MaxHold - p.lock.Margin, true
}

// reason says why a hold was lost, behind its name: the cause for programs says the name, too, and what
// to do.
func (p *plan) reason(cause error) string {
	var lost *mortise.LostError
	if !errors.As(cause, &lost) {
		return cause.Error()
	}
	var of *mortise.Error
	if errors.As(cause, &of) && of.Name != p.name { // one of several locks
		return fmt.Sprintf("%q: %v", of.Name, lost)
	}
	return lost.Error()
}

// usualKillAfter is the time from the signal to SIGKILL if the user names none: the more of a TTL is
// reserved for ending the command, the shorter is the silence of Redis that the command survives.
func usualKillAfter(ttl time.Duration) time.Duration { return min(defaultKillAfter, ttl/6) }

// reserve sets how much of the TTL is reserved for ending the command. A limit of the hold is longer
// by as much: the command gets all of what the user has named.
func (p *plan) reserve() {
	if p.warn {
		return
	}
	p.lock.Margin = p.killAfter + dying(p.ttl)
	if p.lock.MaxHold != 0 {
		p.lock.MaxHold += p.lock.Margin
	}
}

// dying is the time reserved for processes to be gone after SIGKILL, for a busy machine to handle
// that, and for differences between clocks.
func dying(ttl time.Duration) time.Duration { return min(ttl/10, time.Second) }

// find finds the program, as execvp(3) would.
func (p *plan) find() error {
	path, err := exec.LookPath(p.argv[0])
	if err == nil {
		p.path = path
		return nil
	}
	switch {
	case errors.Is(err, exec.ErrDot):
		return &exitError{code: exitNotFound, err: fmt.Errorf("%q was found only in the current directory", p.argv[0]),
			hint: "Write it as ./" + p.argv[0] + " if that is what you mean."}
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return &exitError{code: exitNotFound, err: fmt.Errorf("%q was not found", p.argv[0]), hint: spacesHint(p.argv)}
	case isDirectory(p.argv[0]):
		return &exitError{code: exitNotExec, err: fmt.Errorf("%q cannot be executed: it is a directory", p.argv[0])}
	}
	return &exitError{code: exitNotExec, err: fmt.Errorf("%q cannot be executed: %w", p.argv[0], errors.Unwrap(err))}
}

// spacesHint is for users of tools that run a shell.
func spacesHint(argv []string) string {
	if len(argv) == 1 && len(argv[0]) > 0 && shellQuote(argv[0]) != argv[0] {
		return "For a shell's command line: mortise run NAME -c " + shellQuote(argv[0])
	}
	return ""
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// limitFrom limits the wait, which began then.
func (p *plan) limitFrom(began time.Time) {
	p.began = began
	if p.wait > 0 {
		p.lock.Wait = max(p.wait-time.Since(began), time.Millisecond)
	}
}
