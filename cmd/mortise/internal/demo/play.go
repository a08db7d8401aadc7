package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mortise-go/mortise/memredis"
)

// demonstration is the parent of a demonstration. One goroutine runs it.
type demonstration struct {
	Config
	palette palette

	show      *narrator
	server    *memredis.Server
	dir, file string
	processes []*process
	pipe      *os.File // all processes write their events to it
	events    chan event
	garbled   error         // why there are no more events; valid once events is closed
	done      chan struct{} // closed when events are not received any more
	exits     chan *process
	dismissed bool    // the workers were asked to end
	log       []event // all events, in their order
}

// perform runs the demonstration up to the orderly end of the workers.
func (d *demonstration) perform(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	begun := time.Now()
	first := d.Duration
	if !d.NoLock {
		first = d.Duration / 4
	}
	if err := d.contend(ctx, first); err != nil {
		return err
	}
	if !d.NoLock {
		if err := d.crash(ctx, d.processes[1]); err != nil {
			return err
		}
		if err := d.contend(ctx, max(d.Duration-time.Since(begun), d.Duration/8)); err != nil {
			return err
		}
	}
	return d.dismiss(ctx)
}

// prepare starts the server and the workers, and lets the workers begin all at once.
func (d *demonstration) prepare(ctx context.Context) (err error) {
	if !d.NoLock {
		if d.server, err = memredis.Listen("127.0.0.1:0"); err != nil {
			return fmt.Errorf("start the embedded Redis: %w", err)
		}
	}
	d.introduce()
	if err := d.createCounter(); err != nil {
		return err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	d.pipe, d.events, d.done = out, make(chan event, 64), make(chan struct{})
	d.exits = make(chan *process, d.Workers)
	go func() {
		defer close(d.events)
		defer in.Close()
		d.garbled = readEvents(in, d.events, d.done)
	}()
	d.show = newNarrator(d.Out, d.palette, d.Workers, !d.NoLock)
	for n := range d.Workers {
		p, err := startProcess(n+1, d.workerProcess(n+1), d.exits)
		if err != nil {
			return err
		}
		d.processes = append(d.processes, p)
	}
	ready := 0
	if err := d.await(ctx, func(event) bool { ready++; return ready == d.Workers }); err != nil {
		return err
	}
	d.show.start = time.Now()
	d.show.parent("%d processes are ready; pids %s", d.Workers, d.pids())
	for _, p := range d.processes {
		if err := d.order(ctx, p, orderStart); err != nil {
			return err
		}
	}
	return nil
}

func (d *demonstration) introduce() {
	if d.NoLock {
		fmt.Fprintf(d.Out, "No Redis, no lock: nothing keeps the processes apart.\n")
	} else {
		fmt.Fprintf(d.Out, "An embedded Redis listens on %s; it is for trying things, not for production.\n", d.server.Addr())
	}
	fmt.Fprintf(d.Out, "%d processes add 1 to a number in a file: each reads it, thinks for %v, writes it back.\n", d.Workers, thinking)
	if !d.NoLock {
		fmt.Fprintf(d.Out, "They do so under the lock %q. When its holder dies, it becomes free within its lease of %v.\n", lockName, d.lease())
	}
	fmt.Fprintln(d.Out)
}

func (d *demonstration) pids() string {
	var b strings.Builder
	for i, p := range d.processes {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, p.pid())
	}
	return b.String()
}

// contend lets the workers work for a while.
func (d *demonstration) contend(ctx context.Context, while time.Duration) error {
	end := time.Now().Add(while)
	for {
		step := min(time.Until(end), d.Duration/8)
		if step <= 0 {
			return nil
		}
		if _, err := d.watch(ctx, step, nothing); err != nil {
			return err
		}
		d.show.progress()
	}
}

// crash stops p in the middle of an update, for longer than its lease, to show that the lease is
// renewed, and then kills it. It returns when another worker has the lock.
func (d *demonstration) crash(ctx context.Context, p *process) error {
	if err := d.order(ctx, p, orderStall); err != nil {
		return err
	}
	says := func(what action) func(event) bool {
		return func(e event) bool { return e.Worker == p.number && e.What == what }
	}
	if err := d.await(ctx, says(workerStalls)); err != nil {
		return err
	}
	alive := d.lease() * 5 / 4
	switch lost, err := d.watch(ctx, alive, says(workerLost)); {
	case err != nil:
		return err
	case lost:
		return fmt.Errorf("worker-%d lost the lock before it could be killed; is the machine very busy?", p.number)
	}
	d.show.parent("worker-%d still has it after %v: while it lives, its lease is renewed; others wait: %d",
		p.number, alive, len(d.show.waiting))
	// Through the pipe, which puts it in order with the other events.
	if err := (event{At: time.Now(), Worker: p.number, What: workerKilled}).write(d.pipe); err != nil {
		return err
	}
	p.doomed = true
	p.kill()
	killed := false
	return d.await(ctx, func(e event) bool {
		killed = killed || e.What == workerKilled
		return killed && e.What == workerEnters
	})
}

// dismiss lets the workers finish their turns, and waits for their end.
func (d *demonstration) dismiss(ctx context.Context) error {
	d.show.parent("tells the workers to finish\n")
	d.dismissed = true
	for _, p := range d.processes {
		p.dismiss()
	}
	d.pipe.Close()
	if err := d.await(ctx, nothing); !errors.Is(err, errNoMoreEvents) {
		return err
	}
	for _, p := range d.processes {
		<-p.gone // it has closed the pipe, so it will end
		if err := d.ended(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// nothing matches no event.
func nothing(event) bool { return false }

// errNoMoreEvents: all ends of the pipe are closed.
var errNoMoreEvents = errors.New("all workers ended too early")

// await handles events until one matches.
func (d *demonstration) await(ctx context.Context, until func(event) bool) error {
	_, err := d.watch(ctx, time.Hour, until) // ctx ends long before
	return err
}

// watch handles events for a time, or until one matches, and reports whether one did.
func (d *demonstration) watch(ctx context.Context, while time.Duration, until func(event) bool) (bool, error) {
	timer := time.NewTimer(while)
	defer timer.Stop()
	for {
		select {
		case e, ok := <-d.events:
			if !ok {
				return false, cmp.Or(d.garbled, errNoMoreEvents)
			}
			d.log = append(d.log, e)
			d.show.tell(e)
			if until(e) {
				return true, nil
			}
		case p := <-d.exits:
			if err := d.ended(ctx, p); err != nil {
				return false, err
			}
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// order sends an order to a worker. If that fails, the worker has ended, and the error says why.
func (d *demonstration) order(ctx context.Context, p *process, what string) error {
	err := p.order(what)
	if err == nil {
		return nil
	}
	select {
	case <-p.gone:
		return cmp.Or(d.ended(ctx, p), err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// interruptLimit is how long an interrupt that has ended a worker takes to reach the parent, too.
const interruptLimit = time.Second

// ended returns an error if a process should not have ended, or not this way.
func (d *demonstration) ended(ctx context.Context, p *process) error {
	switch {
	case p.doomed, d.dismissed && p.err == nil:
		return nil
	case p.err == nil:
		return fmt.Errorf("worker-%d (pid %d) ended too early", p.number, p.pid())
	case p.interrupted():
		// A terminal interrupts all processes at once, also a worker that does not ignore it yet.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(interruptLimit):
		}
	}
	return fmt.Errorf("worker-%d (pid %d) failed: %w: %s", p.number, p.pid(), p.err, strings.TrimSpace(p.stderr.String()))
}

// end ends whatever is left: no process outlives the demonstration.
func (d *demonstration) end() {
	for _, p := range d.processes {
		p.kill()
		p.dismiss()
	}
	if d.pipe != nil {
		d.pipe.Close()
		close(d.done)
		for range d.events {
		}
	}
	if d.server != nil {
		d.server.Close()
	}
}

// conclude sums up, and returns nil if the file is exact.
func (d *demonstration) conclude() error {
	final, err := d.counter()
	if err != nil {
		return err
	}
	t := tallyOf(d.log)
	t.summarize(d.Out, d.palette, final, d.lease())
	return t.verdict(final)
}
