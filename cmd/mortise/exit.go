package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/guard"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/driver"
)

// The exit codes, from sysexits.h where it has a matching one.
const (
	exitOther       = 1   // the answer is no
	exitUsage       = 64  // EX_USAGE
	exitUnreachable = 69  // EX_UNAVAILABLE
	exitBug         = 70  // EX_SOFTWARE
	exitOutput      = 74  // EX_IOERR
	exitBusy        = 75  // EX_TEMPFAIL
	exitDenied      = 77  // EX_NOPERM
	exitLost        = 79  // free in sysexits.h
	exitNotExec     = 126 // the shells' code
	exitNotFound    = 127 // the shells' code
	exitSignal      = 128 // plus the signal's number
)

// exitCodes is the table in the help of a command that runs another one while it holds what.
func exitCodes(what, busy string) string {
	return strings.NewReplacer("{what}", what, "{busy}", busy).Replace(`Exit codes:
  the command's own, or 128+n (in a shell) if signal n ended it or the wait
   64  wrong usage, or a name or duration that is not acceptable
   69  Redis cannot be reached, or cannot serve
   70  an internal error
   75  {busy}; see -E
   77  Redis refused the user, the password or a right
   79  the {what} was lost while the command ran, and the command was ended;
       or --max-hold was over, or it was asked to release the {what} (mortise
       unlock --ask), and the command was ended
  126  the command cannot be executed
  127  the command was not found`)
}

// asks is the table in the help of a command that only asks or changes something in Redis. Others are
// the lines of the codes that not all of them have.
func asks(done string, others ...string) string {
	lines := append([]string{"   0  " + done}, others...)
	lines = append(lines, "  64  wrong usage, or the name is in use for something else",
		"  69  Redis cannot be reached, or cannot serve", "  77  Redis refused the user, the password or a right")
	slices.Sort(lines) // the codes stand at the same place in all of them
	return "\n\nExit codes:\n" + strings.Join(lines, "\n")
}

// exitError is an error with an exit code of its own and, if the text does not already say it, a
// hint what to do next.
type exitError struct {
	code   int
	signal syscall.Signal // that has ended the wait, or 0
	again  bool           // the command was ended only because the lead was lost: see elect --keep
	url    bool           // the URL of Redis is at fault: the hint says where it came from
	hint   string
	err    error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// usageError reports a mistake in the command line. The hint may repeat what the user wrote.
func usageError(hint, format string, args ...any) error {
	return &exitError{code: exitUsage, hint: concealed(hint), err: fmt.Errorf(format, args...)}
}

// childStatus is how the command that was run has ended. It is not an error, and nothing is printed
// for it.
type childStatus struct {
	code   int
	signal syscall.Signal // that has ended it, or 0
	typed  bool           // the signal was typed, and only the command has received it
}

func (s childStatus) Error() string { return fmt.Sprintf("the command ended with status %d", s.code) }

// dieOf ends this process by the signal that has ended what err is about, if it was a signal.
func dieOf(err error) {
	var own *exitError
	var child childStatus
	switch {
	case errors.As(err, &child) && child.signal != 0:
		guard.Die(child.signal, child.typed)
	case errors.As(err, &own) && own.signal != 0:
		guard.Die(own.signal, false)
	}
}

// connectError wraps an error of connecting as mortise would wrap it later on.
func connectError(err error) error {
	switch driver.ClassOf(err) {
	case driver.Denied:
		return fmt.Errorf("%w: %w", mortise.ErrDenied, err)
	case driver.Other:
		return &exitError{code: exitUsage, url: true, err: err} // it describes the forms of a URL
	}
	if reason := driver.Reason(err); reason != "" {
		return &exitError{code: exitUnreachable, hint: refusalHint(err), err: fmt.Errorf("redis cannot serve: %s: %w", reason, err)}
	}
	return fmt.Errorf("%w: %w", mortise.ErrUnreachable, err)
}

// plain returns err without the operation, for a message that already names it.
func plain(err error) error {
	var e *mortise.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// exitCode returns the exit code for the outcome of a command.
func exitCode(err error) int {
	var own *exitError
	var child childStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &child):
		return child.code
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, mortise.ErrLost):
		return exitLost
	case errors.Is(err, mortise.ErrUnreachable), errors.Is(err, mortise.ErrUnknownOutcome), errors.Is(err, mortise.ErrNoScripts):
		return exitUnreachable
	case errors.Is(err, mortise.ErrDenied):
		return exitDenied
	case errors.Is(err, mortise.ErrInvalid), errors.Is(err, mortise.ErrWrongKind):
		return exitUsage
	case errors.Is(err, mortise.ErrLocked):
		return exitBusy
	}
	return exitBug
}

// lacksRight reports whether Redis knows the user, and refuses a command, a key or a channel to it.
func lacksRight(err error) bool {
	var refused *driver.Error
	return errors.Is(err, mortise.ErrDenied) && errors.As(err, &refused) &&
		!slices.ContainsFunc([]string{"NOAUTH ", "WRONGPASS ", "DENIED "}, func(reply string) bool { return strings.HasPrefix(refused.Reply, reply) })
}

// serverOf returns the address of the server of a cluster that err is about, as the name of a lock tells; empty if it does not.
func (a *app) serverOf(err error) string {
	of, ok := errors.AsType[*mortise.Error](err)
	if !ok || of.Name == "" || a.driver == nil {
		return ""
	}
	return a.driver.Shard(a.keyPrefix() + of.Name)
}

// hint returns advice about an error.
func (a *app) hint(err error) string {
	var own *exitError
	var phase *connect.PhaseError
	var unlisted *mortise.UnlistedError
	switch {
	case errors.As(err, &unlisted) && !errors.Is(err, mortise.ErrDenied):
		return "The keys on " + strings.Join(unlisted.Servers, ", ") + " could not be read: what these have is missing here."
	case errors.As(err, &own) && own.url:
		hint := "The URL is that of " + a.target().from + "."
		if strings.Contains(own.Error(), "user") {
			hint += " A password may also come from --password-file FILE, $" + envPasswordFile + " or $" + envPassword + "."
		}
		return hint
	case errors.As(err, &own):
		return own.hint
	case refusalHint(err) != "":
		return refusalHint(err)
	case errors.As(err, &phase):
		return a.connectHint(phase.Phase, "", err)
	case errors.Is(err, mortise.ErrUnreachable):
		return a.connectHint(connect.PhaseConnect, a.serverOf(err), err)
	case lacksRight(err):
		return a.rightsHint(err)
	case errors.Is(err, mortise.ErrDenied):
		return "Put a user and password into the URL, redis://user:password@host, in MORTISE_REDIS_URL rather than\n" +
			"on the command line, where others can see it."
	case errors.Is(err, mortise.ErrWrongKind):
		return a.wrongKindHint(err)
	case errors.Is(err, mortise.ErrNoScripts):
		return "EVAL or EVALSHA is disabled or renamed in its configuration, or it was built without Lua. No lock works there:\n" +
			"use another server."
	}
	return ""
}
