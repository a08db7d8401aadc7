//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// outage is longer than any patience that is not that of a wait.
const outage = time.Minute

// waiter returns an app that waits, for so long if that is not 0, and its client.
func waiter(t *testing.T, link *mortisetest.Link, wait time.Duration, options mortise.Options) (*app, *mortise.Client) {
	a := &app{stderr: new(strings.Builder), getenv: func(string) string { return "" }, waits: true, wait: wait}
	client := a.clientOf(link, options, time.Now())
	t.Cleanup(func() { _ = client.Close() })
	return a, client
}

// What waits goes on when Redis was away for less than the wait, and without a limit however long it was away.
func TestWaitsOutAnInterruption(t *testing.T) {
	f := &runFlags{permits: 1, app: &app{stderr: io.Discard}}
	for name, open := range map[string]func(c *mortise.Client, p *plan) subject{
		"lock": locks, "fair": kinds[0].open, "read": kinds[1].open, "write": kinds[2].open, "fence": kinds[3].open, "sem": f.permitsOf,
		"elect": func(c *mortise.Client, p *plan) subject { return termOf(c, p, "me") },
	} {
		for _, wait := range []time.Duration{0, 2 * outage} {
			t.Run(fmt.Sprint(name, " ", wait), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := mortisetest.NewServer()
					defer server.Close()
					link := server.Link()
					a, client := waiter(t, link, wait, mortise.Options{})
					p := &plan{name: "job", what: name, wait: wait, claims: []claim{{name: "job"}}}
					p.limitFrom(time.Now())
					link.Freeze()
					time.AfterFunc(outage, func() {
						if name == "sem" {
							_, _ = server.Do("SET", "job", "1")
						}
						link.Thaw()
					})
					hold, _, err := a.acquire(t.Context(), func() {}, open(client, p), p)
					if err != nil {
						t.Fatal(err)
					}
					_ = hold.Unlock()
				})
			})
		}
	}
}

// A wait that is not shown, as in cron, says why it lasts if that is Redis: after five seconds, and twice a minute from then on.
func TestWaitSaysThatRedisFails(t *testing.T) {
	for verbose, want := range map[bool][]string{
		false: {"waiting 1.s for job: redis cannot", "waiting 4.s for job: redis cannot"},
		true:  {"waiting 1s for job: held by ", "waiting 1.s for job: redis cannot", "waiting 4.s for job: redis cannot"},
	} {
		t.Run(fmt.Sprint(verbose), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := mortisetest.NewServer()
				defer server.Close()
				link := server.Link()
				a, client := waiter(t, link, 0, mortise.Options{})
				p := &plan{name: "job", what: "lock", verbose: verbose, claims: []claim{{name: "job"}}}
				p.limitFrom(time.Now())
				time.AfterFunc(10*time.Second, link.Freeze)
				time.AfterFunc(10*time.Second+outage, link.Thaw)
				held, _, err := client.Lock("job").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(3*outage, func() { _ = held.Unlock() })
				s := locks(client, p)
				s.look = p.look(client)
				hold, _, err := a.acquire(t.Context(), func() {}, s, p)
				if err != nil {
					t.Fatal(err)
				}
				_ = hold.Unlock()
				said := fmt.Sprint(a.stderr)
				for _, line := range want {
					if !regexp.MustCompile(line).MatchString(said) {
						t.Errorf("it says\n%swant %q in it", said, line)
					}
				}
				if got := strings.Count(said, "redis cannot"); got != 2 {
					t.Errorf("it says\n%swant the reason twice", said)
				}
			})
		})
	}
}

// A terminal of 80 columns has room for what is wrong, if not for why.
func TestWaitingLineSaysThatRedisFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mortisetest.NewServer()
		defer server.Close()
		link := server.Link()
		a, client := waiter(t, link, 0, mortise.Options{})
		link.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), outage)
		defer cancel()
		_, _ = client.Inspect(ctx, "job")
		w := waiting{what: "deploy", began: time.Now()}
		if got := fitting(w.texts(failureText(a.trouble())), 79); got != "waiting 0s for deploy: redis cannot be reached or cannot serve; Ctrl-C gives up" {
			t.Errorf("the line is %q, want what is wrong", got)
		}
	})
}

func TestLatchWaitsOutAnInterruption(t *testing.T) {
	for _, wait := range []time.Duration{0, 2 * outage} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := mortisetest.NewServer()
				defer server.Close()
				link := server.Link()
				a, client := waiter(t, link, wait, asking)
				if _, err := server.Do("SET", "ready", "1"); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Second, link.Freeze)
				time.AfterFunc(outage, func() {
					link.Thaw()
					_, _ = server.Do("DEL", "ready")
				})
				if err := a.latch(t.Context(), client.CountDownLatch("ready"), "wait", 0, wait > 0, wait, time.Now()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Holders who were asked have as long as --wait says, also beside an interruption.
func TestAskWaitsOutAnInterruption(t *testing.T) {
	for away, want := range map[time.Duration]error{outage: nil, 3 * outage: mortise.ErrUnreachable} {
		t.Run(fmt.Sprint(away), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := mortisetest.NewServer()
				defer server.Close()
				link := server.Link()
				client := mortise.New(link, &asking)
				defer client.Close()
				link.Freeze()
				defer time.AfterFunc(away, link.Thaw).Stop()
				a := &app{stdout: newOutput(io.Discard), stderr: new(strings.Builder)}
				u := unlocking{app: a, client: client, name: "job", state: mortise.State{Name: "job", Holders: []mortise.Holder{{Owner: "x:1"}}}}
				if err := u.await(t.Context(), askPlan{wait: 2 * outage}); !errors.Is(err, want) {
					t.Errorf("it ends with %v, want %v", err, want)
				}
			})
		})
	}
}

// A command that does not wait asks for no longer than usual, and one whose wait is short for no less.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		time.Sleep(time.Second)
		for _, test := range []struct {
			app  *app
			want time.Duration
		}{
			{&app{}, 10 * time.Second}, {&app{wait: time.Hour}, 10 * time.Second},
			{&app{waits: true}, -1}, {&app{waits: true, wait: 3 * time.Second}, 10 * time.Second}, {&app{waits: true, wait: time.Minute}, 59 * time.Second},
		} {
			if got := test.app.patience(10*time.Second, began); got != test.want {
				t.Errorf("waits %v, for %v: %v, want %v", test.app.waits, test.app.wait, got, test.want)
			}
		}
	})
}

// With --keep what passes ends nothing after the first term, and is told once. What does not pass ends it, and so does a signal.
func TestKeepCampaignsAgain(t *testing.T) {
	lost := &exitError{code: exitLost, again: true, err: errors.New("the lead was lost")}
	away := fmt.Errorf("%w: no route", mortise.ErrUnreachable)
	few := &mortise.Error{Op: "campaign", Err: mortise.ErrNotDurable}
	denied := fmt.Errorf("%w: no right", mortise.ErrDenied)
	for _, test := range []struct {
		name string
		ends []error // of the attempts
		told int     // how often an interruption
		want error
	}{
		{"an interruption", []error{lost, away, few, away, childStatus{}}, 1, childStatus{}},
		{"two interruptions", []error{lost, away, away, lost, away, childStatus{}}, 2, childStatus{}},
		{"before the first term", []error{away}, 0, away},
		{"what does not pass", []error{lost, away, denied}, 1, denied},
		{"another leads for all of the wait", []error{lost, &exitError{code: exitBusy, err: mortise.ErrLocked}}, 0, mortise.ErrLocked},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told strings.Builder
				a := &app{stderr: &told, getenv: func(string) string { return "" }}
				err := a.keep(t.Context(), nil, func() error {
					if len(test.ends) == 0 {
						t.Error("it goes on after its end")
						return childStatus{}
					}
					err := test.ends[0]
					test.ends = test.ends[1:]
					return err
				})
				if !errors.Is(err, test.want) || len(test.ends) > 0 || strings.Count(told.String(), "campaigning until that has passed") != test.told {
					t.Errorf("it ends with %v, %d attempts left, want %v; it has told\n%s", err, len(test.ends), test.want, told.String())
				}
			})
		})
	}
}

func TestKeepEndsBySignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		defer time.AfterFunc(time.Hour, func() { signals <- syscall.SIGTERM }).Stop()
		attempts := 0
		a := &app{stderr: new(strings.Builder), getenv: func(string) string { return "" }}
		err := a.keep(context.Background(), signals, func() error {
			if attempts++; attempts == 1 {
				return &exitError{code: exitLost, again: true, err: errors.New("the lead was lost")}
			}
			return mortise.ErrUnreachable
		})
		if own, ok := errors.AsType[*exitError](err); !ok || own.signal != syscall.SIGTERM {
			t.Errorf("it ends with %v, want SIGTERM", err)
		}
		if most := int(time.Hour/keepPause) + 2; attempts > most {
			t.Errorf("%d attempts in an hour, want %d at most", attempts, most)
		}
	})
}
