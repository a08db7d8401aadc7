// Package top is a screen that shows locks as they are now: what is held, who waits, for how long. A user can look
// at one lock in detail, and release it.
package top

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/watch"
)

// Actor changes locks, as the user of the screen asks.
type Actor interface {
	// Release releases the lock in that state of one owner, and reports whether that owner still had it.
	Release(ctx context.Context, s mortise.State, owner string) (bool, error)
	// Ask asks the holders to release a lock.
	Ask(ctx context.Context, name, reason string) ([]mortise.AskedHolder, error)
}

// Options are the options of a screen.
type Options struct {
	Prefix, Pattern string             // as in watch.Options
	Load            int                // as in watch.Options
	Redis           string             // as the screen names it
	In, Out         *os.File           // the terminal
	Act             Actor              // nil: the screen changes nothing
	Words           func(error) string // an error as a user reads it
	// Deadlocks returns the cycles that have lasted for two looks. It is called once for each look.
	Deadlocks func(clients []mortise.ClientState) []*mortise.DeadlockError
}

// reason returns an error for a message, in at most width columns: its beginning, and its end, which says most.
func (o *Options) reason(err error, width int) string {
	text := strings.Map(func(r rune) rune { // what a server has replied may be in it
		if typeable(r) < 0 {
			return '?'
		}
		return r
	}, strings.Join(strings.Fields(o.Words(err)), " "))
	return cutMiddle(text, width)
}

// reasonColumns is what the reason takes at most in a message that says more.
const reasonColumns = 48

// what says which locks the screen shows, if that is not all.
func (o *Options) what() string {
	text := ""
	if o.Prefix != "" {
		text += "  prefix " + clean(o.Prefix)
	}
	if o.Pattern != "" && o.Pattern != "*" {
		text += "  " + clean(o.Pattern)
	}
	return text
}

// lookEvery is how often the screen looks: what it shows between two looks goes on by the clock.
const lookEvery = time.Second

// ErrTerminal is the error of a screen whose terminal has gone.
var ErrTerminal = errors.New("the terminal is gone")

// Run shows a screen until the user leaves it, or ctx ends. It uses d, and closes it at its end. The terminal is
// restored when it returns.
func Run(ctx context.Context, d driver.Driver, o Options) error {
	watched := watch.Options{Prefix: o.Prefix, Pattern: o.Pattern, Load: o.Load, Every: lookEvery}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var program *tea.Program
	looked := make(chan struct{}) // closed when something is known, or that nothing will be
	known := sync.OnceFunc(func() { close(looked) })
	watched.Look = func(l *watch.Look) {
		s := newSeen(l, o.Deadlocks(l.Clients))
		known()
		program.Send(s)
	}
	watched.Note = func(n *watch.Note) {
		known()
		if n.Err == nil || n.Load { // the screen says itself that Redis cannot be read
			program.Send(noted{n.Text})
		}
	}
	w := watch.New(d, &watched)
	m := newModel(ctx, o, w)
	program = tea.NewProgram(m, tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithFilter(clamped),
		tea.WithInput(&input{File: o.In, gone: func() { cancel(ErrTerminal) }}), tea.WithOutput(o.Out))
	m.send = program.Send
	var looking sync.WaitGroup
	looking.Go(func() {
		defer known()
		defer restoring(program, looked)
		if err := w.Run(ctx); ctx.Err() == nil {
			cancel(err)
		}
	})
	// Without the rights to look there is no screen: what the terminal would answer to its questions would be left
	// for the shell to read.
	<-looked
	var err error
	if ctx.Err() == nil {
		_, err = program.Run()
	}
	cause := context.Cause(ctx)
	cancel(nil)
	looking.Wait()
	m.work.Wait()
	_ = w.Close() // nothing depends on it any more
	if errors.Is(err, tea.ErrProgramPanic) {
		return err
	}
	if cause != nil {
		return cause
	}
	return err
}

// restoring restores the terminal if the goroutine panics after the first look: it would be left raw, and nobody
// could read why.
func restoring(program *tea.Program, looked <-chan struct{}) {
	p := recover()
	if p == nil {
		return
	}
	select {
	case <-looked:
		_ = program.ReleaseTerminal() // there is nothing to do about it
	default: // there is no screen yet
	}
	panic(p)
}

// input is the terminal as the source of keys. It reports when that has gone: then reading is at the end of the file,
// and no key would ever come.
type input struct {
	*os.File
	gone func()
}

// Read implements io.Reader.
func (i *input) Read(p []byte) (int, error) {
	n, err := i.File.Read(p)
	if n == 0 && err != nil && !errors.Is(err, os.ErrClosed) {
		i.gone()
		return 0, io.EOF
	}
	return n, err
}

// newSeen prepares what a look has seen, in the goroutine of the watcher.
func newSeen(l *watch.Look, deadlocks []*mortise.DeadlockError) *seen {
	s := &seen{Look: l, locks: l.Locks(), deadlocks: deadlocks, at: time.Now(), byName: make(map[string]*watch.Lock), byID: make(map[string]*mortise.ClientState)}
	for i := range s.locks {
		s.byName[s.locks[i].Name] = &s.locks[i]
	}
	for i := range s.Clients {
		s.byID[s.Clients[i].ID] = &s.Clients[i]
	}
	return s
}
