package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/driver"
	"github.com/spf13/cobra"
)

// app is what the commands share: the outside world, and the common flags.
type app struct {
	stdout *output   // results
	stderr io.Writer // messages
	getenv func(string) string
	line   statusLine

	redis        string // of --redis
	passwordFile string // of --password-file
	aimed        sync.Once
	aim          target        // see target
	driver       driver.Driver // of the last connection; may be closed
	hidden       *os.File      // see hide

	prefix struct {
		text  string      // of --prefix
		given func() bool // reports whether that was on the command line
	}
	waits bool          // for others, and so for Redis as well
	wait  time.Duration // how long at most; 0: no limit
	tells bool          // that it waits, also where there is no terminal
	json  bool          // of --json

	failing func() error // why Redis does not serve the command at present; nil before that waits for Redis
	args    []string
	kinds   string // for mortise acl: what the command needs; empty if that is not known yet
}

func newApp() *app {
	a := &app{stdout: newOutput(os.Stdout), stderr: os.Stderr, getenv: os.Getenv}
	a.line.open(os.Stderr, os.Getenv)
	return a
}

// main runs the command in args and returns the exit code. If a signal has ended it, main does not
// return.
func (a *app) main(args []string) int {
	if len(args) == 1 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		args = append(args, "") // the word to complete, which cobra does not do without
	}
	a.args = args
	root := rootCommand(a)
	root.SetArgs(args)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	a.kinds = cmp.Or(a.kinds, kindsOf(cmd))
	if lost := a.stdout.failure(); lost != nil && (err == nil || exitCode(err) == exitBug) {
		err = lost
	}
	a.report(err)
	dieOf(err)
	return exitCode(err)
}

// report writes an error, and the hint for it, to stderr.
func (a *app) report(err error) {
	var child childStatus
	if err == nil || errors.As(err, &child) {
		return // the command has reported its own errors
	}
	text := a.textOf(err)
	hint := a.hint(err)
	if a.wantsJSON() {
		a.writeFailure(failure{Code: exitCode(err), Message: withoutScript(text), Hint: hint})
		return
	}
	a.say("%s", text)
	if hint != "" {
		fmt.Fprintf(a.stderr, "  %s\n", strings.ReplaceAll(harmless(hint), "\n", "\n  "))
	}
}

// textOf returns the text of an error, for the user.
func (a *app) textOf(err error) string {
	text := inOwnWords.Replace(strings.TrimPrefix(err.Error(), "mortise: "))
	var below *driver.Error
	if !errors.As(err, &below) { // package connect removes its secrets itself
		text = concealed(text)
	}
	if a.wait > 0 { // the client's is shorter, by what it took to connect
		text = waitLimit.ReplaceAllString(text, "${1}"+a.wait.String())
	}
	return withoutReply(err, text)
}

// waitLimit matches the limit of a wait in an error of the library.
var waitLimit = regexp.MustCompile(`(the wait limit of )[0-9.a-zµ]+`)

// say writes a message for the user to stderr.
func (a *app) say(format string, args ...any) {
	a.line.around(func() { fmt.Fprintf(a.stderr, "mortise: %s\n", said(format, args...)) })
}

// secret matches text that may be a URL with a password.
var secret = regexp.MustCompile(`(?i)[a-z0-9+-]+://\S*@\S*|(redis|valkey|unix)[a-z+-]*://\S*`)

// concealed removes passwords from text. No message should contain one; this is for messages that
// repeat the user's input, such as a URL in the wrong place.
func concealed(text string) string { return secret.ReplaceAllStringFunc(text, connect.Redact) }

const defaultRedis = "redis://127.0.0.1:6379"

// How long to try to reach Redis before giving up: a wait that is limited to less ends earlier, but
// the first answer may take a moment.
const (
	connectLimit = 5 * time.Second
	connectLeast = time.Second
	// A command that waits tries again after a pause, and for this long if the wait has no limit.
	connectPause    = 200 * time.Millisecond
	connectPatience = 10 * time.Second
)

// patience returns for how long a command asks a Redis that does not answer any more: one that waits has until its wait is over, which
// began then, or as long as it takes, and for usual at least; 0 is what the library does.
func (a *app) patience(usual time.Duration, began time.Time) time.Duration {
	switch {
	case !a.waits:
		return usual
	case a.wait == 0:
		return -1
	}
	return max(cmp.Or(usual, connectPatience), a.wait-time.Since(began))
}

// client returns a client that is connected to Redis.
func (a *app) client(ctx context.Context, options mortise.Options) (*mortise.Client, error) {
	began := time.Now()
	d, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	return a.clientOf(d, options, began), nil
}

// clientOf returns a client that uses d, for a command that may wait since began.
func (a *app) clientOf(d driver.Driver, options mortise.Options, began time.Time) *mortise.Client {
	options.RetryFor = a.patience(options.RetryFor, began)
	client := mortise.New(d, a.options(options))
	a.failing = client.Err
	return client
}

// open connects to Redis. It returns when the server has accepted or refused the connection, after
// connectLimit or the time that the user has to wait, or when ctx ends. A command that waits for others also waits for a
// Redis that cannot be reached, as long as the user has to wait or else as the library does.
func (a *app) open(ctx context.Context) (driver.Driver, error) {
	t := a.target()
	if t.err != nil {
		return nil, t.err
	}
	var failure atomic.Value // what has become of the last attempt
	failure.Store(errors.New("no answer yet"))
	if a.waits {
		a.failing = func() error { return failure.Load().(error) }
	}
	defer a.showWaiting(ctx, waiting{what: "Redis at " + connect.Redact(t.url), limit: a.wait, verbose: a.tells})()
	limit := connectLimit
	switch {
	case a.wait > 0:
		limit = max(a.wait, connectLeast)
	case a.waits:
		limit = connectPatience
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d, err := openOnce(within, t.url)
	if a.waits {
		d, err = openAgain(within, t.url, d, err, func(err error) { failure.Store(errors.New(a.textOf(connectError(err)))) })
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, connectError(err)
	}
	a.driver = d
	if strings.HasPrefix(strings.ToLower(t.url), "mem:") {
		a.say("mem:// is an embedded server that ends with this command; it excludes no other process")
	}
	return d, nil
}

// openAgain goes on after an attempt, until a server has accepted or refused the connection, or ctx ends; failed gets what has become of
// the others.
func openAgain(ctx context.Context, url string, d driver.Driver, err error, failed func(error)) (driver.Driver, error) {
	for errors.Is(err, mortise.ErrUnreachable) {
		failed(err)
		if !sleep(ctx, connectPause) {
			break
		}
		var again error
		if d, again = openOnce(ctx, url); again == nil || ctx.Err() == nil { // else the error before says more
			err = again
		}
	}
	return d, err
}

// openOnce tries for connectLimit at most.
func openOnce(ctx context.Context, url string) (driver.Driver, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	return connect.Open(ctx, url)
}

// leave closes a client at the end of a command: an error would not matter any more.
func leave(client *mortise.Client) { _ = client.Close() }
