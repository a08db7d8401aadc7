package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mortise-go/mortise"
)

// running returns clients that hold a lock each, as mortise run does: what tells them apart is what they run.
func running(at time.Time, locks ...string) (clients []mortise.ClientState) {
	for i, name := range locks {
		id := fmt.Sprintf("8f1c2b3a-0000-8000-8000-%012d", i)
		clients = append(clients, mortise.ClientState{
			ClientInfo: mortise.ClientInfo{ID: id, Host: "store-1", PID: 31810 + i, App: "mortise", Extra: map[string]string{"command": name + ".sh"}},
			Holds:      []mortise.ClientHold{{Lock: name, Kind: "lock", Owner: id + ":1", Since: at}}, HoldCount: 1,
		})
	}
	return clients
}

// On the smallest screen a holder has a name that says what it does, and every list has it.
func TestProgramBehindRun(t *testing.T) {
	m, _ := newScreen(t, 80, 24)
	at := time.Now()
	clients := running(at, "migrate", "backup")
	clients[1].Waits = []mortise.ClientWait{{Lock: "migrate", Kind: "lock", Since: at, Under: []string{clients[1].ID + ":1"}}}
	clients[1].WaitCount = 1
	m.Update(sighted(at, clients))
	want := func(page string, texts ...string) {
		t.Helper()
		screen := strings.Join(drawn(m), "\n")
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				t.Errorf("%s lacks %q:\n%s", page, text, screen)
			}
		}
	}
	want("the list of locks", " store-1 pid 31810 (migrate.sh) ", " store-1 pid 31811 (backup.sh) ")
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 24})
	want("a wide list of locks", " store-1 pid 31810 (mortise: migrate.sh) ", " store-1 pid 31811 (mortise: backup.sh) ")
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	press(m, "c")
	want("the list of clients", " store-1 pid 31810 (migrate.sh) ", " store-1 pid 31811 (backup.sh) ")
	m.one = closeUp{name: "migrate", reading: true} // there is no Redis
	press(m, "q")
	m.open(lockPage, "migrate")
	m.Update(closerLook{name: "migrate",
		state:   mortise.State{Name: "migrate", Kind: mortise.KindLock, Holders: []mortise.Holder{{Owner: clients[0].ID + ":1", Count: 1, Client: &clients[0].ClientInfo}}},
		queue:   mortise.Queue{Waiters: []mortise.Waiter{{Owner: clients[1].ID, Client: &clients[1].ClientInfo}}},
		history: []mortise.Acquisition{{Owner: clients[1].ID + ":7", Host: "store-1", PID: 5, App: "mortise", Command: "ls", End: "released"}},
	})
	want("the page of a lock", " store-1 pid 31810 (migrate.sh) ", "  store-1 pid 31811 (mortise: backup.sh) ", " store-1 pid 5 (mortise: ls) ")
	press(m, "c") // works on every page
	if m.top() != clientsPage {
		t.Errorf("c on the page of a lock led to page %d, want the clients", m.top())
	}
	press(m, "c")
	press(m, "/", "m", "i", "g", "r", "a", "t", "e", ".", "enter")
	if got := names(m); len(got) != 1 || got[0] != "migrate" {
		t.Errorf("a filter for the program finds %q", got)
	}
}

// The process id of a silent process stays: it is what the reader acts on.
func TestSilentProcess(t *testing.T) {
	m, _ := newScreen(t, 80, 24)
	at := time.Now()
	clients := running(at, "order:000000000000000000000000000000000000000000000001")
	clients[0].Silent = 24 * time.Second
	m.Update(sighted(at, clients))
	if line := drawn(m)[above]; !strings.Contains(line, " store-1 pid 31810 sil") {
		t.Errorf("the row is %q, want it to have the process id", line)
	}
}

// Names get the room that they need, and the columns do not move back when long ones are gone.
func TestNamesLeaveRoom(t *testing.T) {
	m, _ := newScreen(t, 80, 24)
	at := time.Now()
	column := func() int { return strings.Index(drawn(m)[above-1], "HOLDER") }
	m.Update(sighted(at, running(at, "a")))
	short := column()
	m.Update(sighted(at, running(at, "a", strings.Repeat("x", 200))))
	long := column()
	m.Update(sighted(at, running(at, "a")))
	if after := column(); short >= long || after != long {
		t.Errorf("the holders begin at %d with a short name, at %d with a long one, and at %d when it is gone; want the first to be less, and the others equal", short, long, after)
	}
}
