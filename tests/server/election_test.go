package server

// Elections and barriers on real servers: processes that are killed and frozen,
// and a cluster.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// party is a process of its own that takes part in what a test asks it for.
type party struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// newParty starts [TestHelperParty].
func newParty(t *testing.T, addr, role string) *party {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHelperParty$")
	cmd.Env = append(os.Environ(), "MORTISE_TEST_ADDR="+addr, "MORTISE_TEST_ROLE="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &party{cmd, bufio.NewScanner(out)}
}

// says waits for a line and returns the rest of it.
func (p *party) says(t *testing.T, prefix string) string {
	t.Helper()
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), prefix); ok {
			return rest
		}
	}
	t.Fatalf("the process ended without saying %q", prefix)
	return ""
}

func (p *party) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

const partyLease = 4 * time.Second

// TestHelperParty is the process. It looks at nothing but the clock once it leads,
// sees that time has jumped, and only then at its term.
func TestHelperParty(t *testing.T) {
	addr := os.Getenv("MORTISE_TEST_ADDR")
	role := os.Getenv("MORTISE_TEST_ROLE")
	if role == "" {
		return // not asked for
	}
	c := mortise.New(dialers["rueidis"](t, addr, ""), &mortise.Options{TTL: partyLease})
	defer c.Close()
	switch role {
	case "await":
		fmt.Println("coming")
		_, err := c.Barrier("job", 3).Await(t.Context())
		fmt.Println("told:", err)
	case "enter":
		m, _, err := c.DoubleBarrier("job", 2).Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("inside")
		time.Sleep(time.Minute) // until it is killed
		_ = m
	case "lead":
		term, ctx := mustLead(t, c.Election("job"), t.Context(), "process")
		begin := time.Now() // before the message: the freeze may come at once
		fmt.Println("leads:", term.Token())
		for last := begin; last.Sub(begin) < time.Minute; {
			now := time.Now()
			jump := now.Sub(last)
			if last = now; jump > time.Second {
				err := ctx.Err()
				fmt.Println("woke:", term.Valid(), errors.Is(context.Cause(ctx), mortise.ErrLost), err != nil)
				return
			}
		}
		t.Fatal("nobody froze this process")
	}
}

// A leader is killed or frozen. The next one is elected when its lease is over,
// and a frozen one knows with its first look.
func TestRealElectionOfProcesses(t *testing.T) { canary.Judge(t, electionOfProcesses) }

func electionOfProcesses(t *testing.T, b *canary.Bounds) {
	s := redistest.Single(t)
	c := mortise.New(dialers["goredis"](t, s.Addr(), ""), &mortise.Options{TTL: partyLease})
	defer c.Close()
	e := c.Election("job")
	last := int64(0)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		p := newParty(t, s.Addr(), "lead")
		p.says(t, "leads:")
		seen, stop := observe(t, e)
		if l := <-seen; l.Value != "process" || l.Term <= last {
			t.Errorf("the leader is %+v, want the process, in a term after %d", l, last)
		}
		start := time.Now()
		p.signal(t, signal)
		term, held, err := e.Campaign(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		b.Within("the next election", time.Since(start), partyLease+5*time.Second)
		if l, err := e.Leader(t.Context()); err != nil || l.Value != "test" || l.Term != term.Token() {
			t.Errorf("the leader is %+v, %v, want \"test\" in the term %d", l, err, term.Token())
		}
		if signal == syscall.SIGSTOP {
			p.signal(t, syscall.SIGCONT)
			if got := p.says(t, "woke: "); got != "false true true" {
				t.Errorf("the first look after the freeze said %q, want not valid, and lost", got)
			}
		}
		_ = p.cmd.Wait() // killed, or done
		if held.Err() != nil {
			t.Errorf("the term of the next one was lost: %v", context.Cause(held))
		}
		for l := range seen {
			if l.Value == "test" {
				break
			}
		}
		last = term.Token()
		mustResign(t, term)
		stop()
	}
}

// observe returns the leaders that e has until stop is called.
func observe(t *testing.T, e *mortise.Election) (leaders <-chan mortise.Leader, stop func()) {
	seen := make(chan mortise.Leader, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var observing sync.WaitGroup
	observing.Go(func() {
		for l, err := range e.Observe(ctx) {
			if err == nil {
				seen <- l
			}
		}
	})
	return seen, func() { cancel(); observing.Wait() }
}

// A party of a barrier is killed: the others are told when its lease is over.
func TestRealBarriersOfProcesses(t *testing.T) { canary.Judge(t, barriersOfProcesses) }

func barriersOfProcesses(t *testing.T, b *canary.Bounds) {
	s := redistest.Single(t)
	c := mortise.New(dialers["goredis"](t, s.Addr(), ""), &mortise.Options{TTL: partyLease})
	defer c.Close()

	p := newParty(t, s.Addr(), "await")
	p.says(t, "coming")
	other := arrive(t.Context(), c.Barrier("job", 3))
	redistest.Eventually(t, "two wait", func() error {
		if n := s.Int(t, "HLEN", "job"); n != 5 { // mode, parties, next, and they
			return fmt.Errorf("%d fields", n)
		}
		return nil
	})
	start := time.Now()
	p.signal(t, syscall.SIGKILL)
	_ = p.cmd.Wait()
	wantBroken(t, (<-other).Err, mortise.BrokenDied)
	b.Within("what is told of a death", time.Since(start), partyLease+5*time.Second)
	if err := c.Barrier("job", 3).Reset(t.Context()); err != nil {
		t.Error(err)
	}
	// All pass, the process too.
	p = newParty(t, s.Addr(), "await")
	second, third := arrive(t.Context(), c.Barrier("job", 3)), arrive(t.Context(), c.Barrier("job", 3))
	if x, y := <-second, <-third; x.Err != nil || y.Err != nil {
		t.Errorf("got %v, %v, want both to pass", x.Err, y.Err)
	}
	if got := p.says(t, "told: "); got != "<nil>" {
		t.Errorf("the process: %s, want %q", got, "<nil>")
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}

	p = newParty(t, s.Addr(), "enter")
	got := <-enter(t.Context(), c.DoubleBarrier("job", 2))
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	p.says(t, "inside")
	left := leave(t.Context(), got.Member)
	start = time.Now()
	p.signal(t, syscall.SIGKILL)
	_ = p.cmd.Wait()
	wantBroken(t, <-left, mortise.BrokenDied)
	b.Within("what is told of a death", time.Since(start), partyLease+5*time.Second)
}

// On a cluster all keys of an object share a slot, messages travel on every
// shard, and slots may move.
func TestRealClusterElectionsAndBarriers(t *testing.T) {
	onCluster(t, func(t *testing.T, name string, set *redistest.ClusterSet, dial func(*mortise.Options) *mortise.Client) {
		var cs []*mortise.Client
		for range 2 {
			cs = append(cs, dial(&mortise.Options{TTL: 3 * time.Second}))
		}
		for i, master := range set.Masters {
			key := set.KeyOn(t, master, fmt.Sprint(name, "election", i))
			electsInTurn(t, cs, key)

			key = set.KeyOn(t, master, fmt.Sprint(name, "barrier", i))
			start := time.Now()
			for range 5 {
				passBarrier(t, cs, key)
			}
			key = set.KeyOn(t, master, fmt.Sprint(name, "double", i))
			for range 5 {
				passDoubleBarrier(t, cs, key)
			}
			t.Logf("ten rounds took %v", time.Since(start))
		}

		slotMovesUnderThem(t, set, cs, set.KeyOn(t, set.Masters[0], name+"moving"))
	})
}

// electsInTurn has two clients lead in turn while one of them observes.
func electsInTurn(t *testing.T, cs []*mortise.Client, key string) {
	seen, stop := observe(t, cs[1].Election(key))
	<-seen // nobody
	for n := range int64(5) {
		term, _ := mustLead(t, cs[n%2].Election(key), t.Context(), fmt.Sprint("v", n))
		if term.Token() != n+1 {
			t.Errorf("the term is %d, want %d", term.Token(), n+1)
		}
		if err := term.Proclaim(t.Context(), fmt.Sprint("w", n)); err != nil {
			t.Error(err)
		}
		for l := range seen {
			if l.Value == fmt.Sprint("w", n) {
				break
			}
		}
		mustResign(t, term)
	}
	stop()
}

func passBarrier(t *testing.T, cs []*mortise.Client, key string) {
	a, b := arrive(t.Context(), cs[0].Barrier(key, 2)), arrive(t.Context(), cs[1].Barrier(key, 2))
	if x, y := <-a, <-b; x.Err != nil || y.Err != nil || x.Index+y.Index != 1 {
		t.Errorf("%+v, %+v", x, y)
	}
}

func passDoubleBarrier(t *testing.T, cs []*mortise.Client, key string) {
	a, b := enter(t.Context(), cs[0].DoubleBarrier(key, 2)), enter(t.Context(), cs[1].DoubleBarrier(key, 2))
	x, y := <-a, <-b
	if x.Err != nil || y.Err != nil {
		t.Fatal(x.Err, y.Err)
	}
	p, q := leave(t.Context(), x.Member), leave(t.Context(), y.Member)
	if err := errors.Join(<-p, <-q); err != nil {
		t.Error(err)
	}
}

// slotMovesUnderThem moves a slot under a leader, a party that waits and one that is inside.
func slotMovesUnderThem(t *testing.T, set *redistest.ClusterSet, cs []*mortise.Client, key string) {
	tag := func(what string) string { return "{" + key + "}" + what }
	term, held := mustLead(t, cs[0].Election(tag("e")), t.Context(), "")
	waiting := arrive(t.Context(), cs[0].Barrier(tag("b"), 2))
	a, b := enter(t.Context(), cs[0].DoubleBarrier(tag("d"), 2)), enter(t.Context(), cs[1].DoubleBarrier(tag("d"), 2))
	x, y := <-a, <-b
	if x.Err != nil || y.Err != nil {
		t.Fatal(x.Err, y.Err)
	}
	set.MoveSlot(t, set.Slot(t, key), set.Owner(t, key), set.Masters[1])
	until := term.Until()
	redistest.Eventually(t, "the term was renewed on the new server", func() error {
		if !term.Until().After(until) {
			return fmt.Errorf("trusted until %v still", until)
		}
		return held.Err()
	})
	mustResign(t, term)
	if got := <-arrive(t.Context(), cs[1].Barrier(tag("b"), 2)); got.Err != nil {
		t.Error(got.Err)
	}
	if got := <-waiting; got.Err != nil {
		t.Error(got.Err)
	}
	p, q := leave(t.Context(), x.Member), leave(t.Context(), y.Member)
	if err := errors.Join(<-p, <-q); err != nil {
		t.Error(err)
	}
	set.MoveSlot(t, set.Slot(t, key), set.Masters[1], set.Masters[0])
}

func electionUsesItsRights(t *testing.T, c, other *mortise.Client, name string) {
	t.Helper()
	term, _ := mustLead(t, c.Election(name), t.Context(), "a")
	next := make(chan error, 1)
	go func() {
		term, _, err := other.Election(name).Campaign(t.Context(), "c")
		if err == nil {
			err = term.Resign()
		}
		next <- err
	}()
	for l, err := range other.Election(name).Observe(t.Context()) {
		if err != nil {
			t.Error(err)
		}
		if l.Value != "a" {
			break
		}
		if err := term.Proclaim(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	}
	mustResign(t, term)
	if err := <-next; err != nil {
		t.Error(err)
	}
	mustLead(t, c.Election(name), t.Context(), "d")
	if _, err := other.Election(name).Depose(t.Context()); err != nil {
		t.Error(err)
	}
}

func barriersUseTheirRights(t *testing.T, c, other *mortise.Client, name string) {
	t.Helper()
	a, b := arrive(t.Context(), c.Barrier(name+":barrier", 2)), arrive(t.Context(), other.Barrier(name+":barrier", 2))
	if x, y := <-a, <-b; x.Err != nil || y.Err != nil {
		t.Error(x.Err, y.Err)
	}
	if err := other.Barrier(name+":barrier", 2).Reset(t.Context()); err != nil {
		t.Error(err)
	}
	gone := make(chan error, 2)
	for _, side := range []*mortise.Client{c, other} {
		go func() {
			m, _, err := side.DoubleBarrier(name+":double", 2).Enter(t.Context())
			if err == nil {
				err = m.Leave(t.Context())
			}
			gone <- err
		}()
	}
	if err := errors.Join(<-gone, <-gone); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := c.DoubleBarrier(name+":double", 2).Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
