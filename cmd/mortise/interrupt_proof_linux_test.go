//go:build proof

package main

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// shells returns the shells of this machine that run scripts.
func shells() (found []string) {
	for _, name := range []string{"sh", "dash", "bash"} {
		if _, err := exec.LookPath(name); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// Ctrl-C and Ctrl-\ on a terminal end the script around mortise, as they do without mortise.
func TestTerminalInterruptEndsTheScript(t *testing.T) {
	for _, shell := range shells() {
		for _, test := range []struct{ name, script string }{
			{"run", "mortise run job -- sh -c 'echo ready; exec sleep 1000'; echo NEXT-STEP"},
			{"run of a shell", "mortise run job -- sh -c '(echo ready; exec sleep 1000); echo more'; echo NEXT-STEP"},
			{"elect", "mortise elect job -- sh -c 'echo ready; exec sleep 1000'; echo NEXT-STEP"},
			{"loop", "for i in 1 2 3; do mortise run job -- sh -c 'echo ready; exec sleep 1000'; echo NEXT-STEP; done"},
			{"pipeline", "mortise run job -- sh -c 'echo ready >&2; exec sleep 1000' | cat; echo NEXT-STEP"},
			{"run in a run", "mortise run outer -- mortise run job -- sh -c 'echo ready; exec sleep 1000'; echo NEXT-STEP"},
		} {
			for key, sig := range map[string]syscall.Signal{"\x03": syscall.SIGINT, "\x1c": syscall.SIGQUIT} {
				if shell == "bash" && sig == syscall.SIGQUIT {
					continue // bash ignores it
				}
				t.Run(shell+" "+test.name+" "+sig.String(), func(t *testing.T) {
					server := redistest.Single(t)
					// The end of its lease is no release.
					script := strings.NewReplacer("mortise run ", "mortise run --ttl 1h ", "mortise elect ", "mortise elect --ttl 1h ").Replace(test.script)
					s, terminal := onTerminal(t, server.Addr(), shell, "-c", script+"; exit 3")
					s.await(t, "ready\r\n")
					typeIn(t, terminal, key)
					s.wantSignal(t, sig)
					if strings.Contains(s.out.text(), "NEXT-STEP\r\n") {
						t.Error("the script has gone on")
					}
					redistest.Eventually(t, "the lock is free", func() error { return heldError(t, server, "job") })
				})
			}
		}
	}
}

// The same while mortise waits.
func TestTerminalInterruptOfTheWait(t *testing.T) {
	for _, shell := range shells() {
		for _, command := range []string{"run", "elect"} {
			t.Run(shell+" "+command, func(t *testing.T) {
				server := redistest.Single(t)
				holder := begin(t, server.Addr(), command, "job", "--", "sleep", "1000")
				awaitHeld(t, server, "job")
				awaitAskable(t, server)
				before := server.Subscribers(t)
				s, terminal := onTerminal(t, server.Addr(), shell, "-c", "for i in 1 2; do mortise "+command+" job -- true; echo NEXT-STEP; done; exit 3")
				redistest.Eventually(t, "it waits", func() error {
					if server.Subscribers(t) == before {
						return errors.New("it has not subscribed")
					}
					return nil
				})
				typeIn(t, terminal, "\x03")
				s.wantSignal(t, syscall.SIGINT)
				if strings.Contains(s.out.text(), "NEXT-STEP\r\n") {
					t.Error("the script has gone on")
				}
				holder.signal(t, syscall.SIGTERM)
				holder.wantSignal(t, syscall.SIGTERM)
			})
		}
	}
}

// A command that handles Ctrl-C and ends in order does not end the script: the shell goes on, as it
// does without mortise.
func TestTerminalInterruptThatIsHandled(t *testing.T) {
	server := redistest.Single(t)
	s, terminal := onTerminal(t, server.Addr(), "sh", "-c",
		`mortise run job -- sh -c 'trap "exit 0" INT; echo ready; while :; do sleep 0.02; done'; echo NEXT-STEP; exit 3`)
	s.await(t, "ready\r\n")
	typeIn(t, terminal, "\x03")
	s.await(t, "NEXT-STEP\r\n")
	s.wantStatus(t, 3)
}

// A SIGINT that was sent to mortise alone is not the script's.
func TestInterruptOfMortiseAlone(t *testing.T) {
	server := redistest.Single(t)
	s, _ := onTerminal(t, server.Addr(), "sh", "-c", `mortise run job -- sh -c 'kill -INT $PPID; exec sleep 1000'; echo status $?; exit 3`)
	s.await(t, "status 130\r\n")
	s.wantStatus(t, 3)
}
