//go:build proof

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The pages that show commands and what they print, and for each of their sections with commands the
// scene in which they are run.
var runbooks = map[string]map[string]func(*scene){
	"README.md":             {"See who holds what": (*scene).chain},
	"docs/observability.md": {"The command": func(s *scene) { s.chain(); s.history() }},
	"docs/operations.md": {
		"A deploy hangs":     (*scene).chain,
		"The job ran twice":  (*scene).history,
		"The lock was lost":  func(*scene) {},
		"Redis' CPU is high": (*scene).crowd,
		"A deadlock":         (*scene).cycle,
		"Renewals are failing, or the process paused": (*scene).silence,
		"A lock is stuck: ask, then force":            (*scene).deaf,
		"Nobody can see the holder":                   (*scene).stranger,
		"Is Redis fit for locks?":                     (*scene).forever,
	},
}

// The runbook shows what the commands really print: every line that it shows is printed, but for
// numbers, times and ids. A command can print more.
func TestRunbookShowsWhatTheCommandsPrint(t *testing.T) {
	t.Parallel()
	for page, scenes := range runbooks {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]bool)
		for _, section := range strings.Split(string(text), "\n## ")[1:] {
			heading, body, _ := strings.Cut(section, "\n")
			commands := consoleOf(body)
			commands = slices.DeleteFunc(commands, func(c shownCommand) bool { return c.line == "make test" }) // these tests are a part of it
			if len(commands) == 0 {
				continue
			}
			found[heading] = true
			t.Run(page+"/"+heading, func(t *testing.T) {
				t.Parallel()
				set := scenes[heading]
				if set == nil {
					t.Fatal("the section shows commands, and has no scene")
				}
				s := newScene(t)
				set(s)
				for _, c := range commands {
					s.run(c)
				}
			})
		}
		for heading := range scenes {
			if !found[heading] {
				t.Errorf("%s shows no command in a section %q", page, heading)
			}
		}
	}
}

// shownCommand is a command as a page shows it.
type shownCommand struct{ line, prints string }

// consoleOf returns the commands of the console blocks of a text.
func consoleOf(text string) (list []shownCommand) {
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for _, session := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			line, prints, _ := strings.Cut(session, "\n")
			list = append(list, shownCommand{line, prints})
		}
	}
	return list
}

// scene is a server with clients that hold locks and wait for them.
type scene struct {
	*testing.T
	server *redistest.Server
	look   *mortise.Client // which looks at the others
	all    sync.WaitGroup  // of the goroutines that hold and wait
}

func newScene(t *testing.T) *scene {
	s := &scene{T: t, server: redistest.Single(t)}
	s.look = s.client("ops", "test", mortise.Options{})
	t.Cleanup(s.all.Wait) // before the clients are closed
	return s
}

// run runs a command, and wants it to print what is shown.
func (s *scene) run(c shownCommand) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	line := strings.ReplaceAll(c.line, "redis:6379", s.server.Addr())
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.WaitDelay = limit
	cmd.Env = append(os.Environ(), "MORTISE_REDIS_URL=redis://"+s.server.Addr())
	got, err := cmd.CombinedOutput()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) || len(got) == 0 {
		s.Errorf("$ %s: %v\n%s", c.line, err, got)
		return
	}
	printed := make(map[string]bool)
	for _, shape := range shapes(string(got)) {
		printed[circular(shape)] = true
	}
	for _, shape := range shapes(c.prints) {
		if !printed[circular(shape)] {
			s.Errorf("$ %s: the page shows %q, but it printed\n%s", c.line, shape, got)
		}
	}
	last := func(text string) string {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		return lines[len(lines)-1]
	}
	if strings.HasSuffix(c.line, "echo $?") && last(string(got)) != last(c.prints) {
		s.Errorf("$ %s: the page shows the status %s, but it printed\n%s", c.line, last(c.prints), got)
	}
}

// circular returns the words of a line that names a cycle in an order that does not depend on where the
// cycle begins; other lines as they are.
func circular(shape string) string {
	if !strings.HasPrefix(shape, "deadlock: ") {
		return shape
	}
	words := strings.Fields(strings.ReplaceAll(shape, ",", ""))
	slices.Sort(words)
	return strings.Join(words, " ")
}

// client returns a client of a process that seems to be on that host.
func (s *scene) client(host, app string, o mortise.Options) *mortise.Client {
	s.Helper()
	d, err := connect.Open(s.Context(), "redis://"+s.server.Addr())
	if err != nil {
		s.Fatal(err)
	}
	o.Identity = mortise.Identity{Host: host, App: app}
	c := mortise.New(d, &o)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// hold has c hold a lock until it is asked to release it, or the test ends. It returns the context of the hold.
func (s *scene) hold(c *mortise.Client, name string) context.Context {
	s.Helper()
	h, ctx, err := c.Lock(name).Lock(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.all.Go(func() {
		<-ctx.Done()
		_ = h.Unlock() // it may have been freed by force
	})
	return ctx
}

// wait has c wait for a lock, and release it if it gets it.
func (s *scene) wait(ctx context.Context, c *mortise.Client, name string) {
	s.all.Go(func() {
		if h, _, err := c.Lock(name).Lock(ctx); err == nil {
			_ = h.Unlock()
		}
	})
}

// settled waits until clients tell of so many holds and waits.
func (s *scene) settled(holds, waits int) {
	s.Helper()
	redistest.Eventually(s.T, "the clients have records", func() error {
		all, err := s.look.Clients(s.Context())
		h, w := 0, 0
		for _, c := range all {
			h, w = h+len(c.Holds), w+len(c.Waits)
		}
		if err == nil && (h != holds || w != waits) {
			err = fmt.Errorf("they tell of %d holds and %d waits", h, w)
		}
		return err
	})
}

// chain is a deploy that waits for another one, which waits for a third process.
func (s *scene) chain() {
	api7, api8, db2 := s.client("api-7", "deploy", mortise.Options{}), s.client("api-8", "deploy", mortise.Options{}), s.client("db-2", "cron", mortise.Options{})
	s.hold(db2, "migrate")
	ctx := s.hold(api7, "deploy")
	s.wait(ctx, api7, "migrate")
	s.wait(s.Context(), api8, "deploy")
	s.settled(2, 2)
}

// history is a job that ran, lost its lock, and ran on another machine.
func (s *scene) history() {
	const runs = 3
	api7, api8 := s.client("api-7", "cron", mortise.Options{History: 100}), s.client("api-8", "cron", mortise.Options{History: 100})
	work := func(c *mortise.Client, o mortise.LockOptions, d time.Duration) {
		s.Helper()
		h, ctx, err := c.Lock("nightly").With(o).Lock(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
		_ = h.Unlock() // says that it was lost, if it was
	}
	work(api7, mortise.LockOptions{}, 50*time.Millisecond)
	work(api7, mortise.LockOptions{MaxHold: 100 * time.Millisecond}, limit)
	work(api8, mortise.LockOptions{}, 50*time.Millisecond)
	redistest.Eventually(s.T, "the history is written", func() error {
		list, err := s.look.History(s.Context(), "nightly", 10)
		if err == nil && len(list) != runs {
			err = fmt.Errorf("it has %d entries", len(list))
		}
		return err
	})
}

// crowd is one lock that all want.
func (s *scene) crowd() {
	c := s.client("api-7", "orders", mortise.Options{})
	s.hold(c, "order:42")
	s.wait(s.Context(), c, "order:42")
	s.wait(s.Context(), c, "order:42")
	s.settled(1, 2)
}

// cycle is two processes that wait for each other.
func (s *scene) cycle() {
	api7, api8 := s.client("api-7", "orders", mortise.Options{}), s.client("api-8", "orders", mortise.Options{})
	stock, orders := s.hold(api7, "stock"), s.hold(api8, "orders")
	s.wait(stock, api7, "orders")
	s.wait(orders, api8, "stock")
	s.settled(2, 2)
}

// silence is what a process leaves that has died, or stands still, a while ago.
func (s *scene) silence() {
	const id = "b0e3ef4e-9ef8-8e3d-aa95-a5d1ad3ad7ba"
	now := time.Now()
	at := func(ago time.Duration) string { return fmt.Sprint(now.Add(-ago).UnixMilli()) }
	body := fmt.Sprintf(`{"host":"api-7","pid":4121,"app":"deploy","started":%s,"holds":[{"name":"deploy","kind":"lock","owner":"%s:1","since":%s}],"hold_count":1}`,
		at(time.Hour), id, at(24*time.Second))
	record := "mortise:client:{" + id + "}"
	s.server.Must(s.T, "HSET", "deploy", id+":1", "1")
	s.server.Must(s.T, "PEXPIRE", "deploy", "59000")
	s.server.Must(s.T, "HSET", record, "body", body, "at", at(22*time.Second), "edition", "5")
	s.server.Must(s.T, "ZADD", "mortise:clients:{all}", at(-time.Minute), id)
	s.settled(1, 0)
}

// deaf is a holder that does not release its lock when it is asked.
func (s *scene) deaf() {
	c := s.client("api-7", "deploy", mortise.Options{OnAsk: func(*mortise.Hold, *mortise.RevokedError) {}})
	s.hold(c, "deploy")
	s.settled(1, 0)
}

// stranger is a holder of Redisson's, and somebody without the right to read records.
func (s *scene) stranger() {
	s.server.Must(s.T, "HSET", "deploy", "8f1c2b3a-0000-4000-8000-000000000001:77", "1")
	s.server.Must(s.T, "PEXPIRE", "deploy", "59000")
	s.server.Must(s.T, "ACL", "SETUSER", "viewer", "on", ">secret", "~deploy", "~redisson_lock*", "&*", "+@all")
}

// forever is a lock of a Redisson thread that has lost its TTL.
func (s *scene) forever() {
	s.server.Must(s.T, "HSET", "deploy", "8f1c2b3a-0000-4000-8000-000000000001:77", "1")
}
