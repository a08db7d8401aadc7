package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/dashboard"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/mortisetest"
)

// Each page shows who holds what, who waits, and who is in the way; without JavaScript.
func TestPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, &dashboard.Options{Title: "staging"})
		api7, api8, db2 := s.client("api-7"), s.client("api-8"), s.client("db-2")
		s.hold(db2, "migrate")
		past, _ := s.hold(api7, "deploy")
		if err := past.Unlock(); err != nil {
			t.Fatal(err)
		}
		_, under := s.hold(api7, "deploy")
		s.wait(under, api7, "migrate")
		s.wait(t.Context(), api8, "deploy")
		pid := regexp.MustCompile(`pid \d+`)
		shows := func(target string, texts ...string) string {
			t.Helper()
			a := s.get(target, texts...)
			if a.code != http.StatusOK || !strings.Contains(a.body, "<title>") || !strings.Contains(a.body, "staging") {
				t.Errorf("%s answers with %d: %s", target, a.code, a.body)
			}
			if !strings.Contains(a.body, `<noscript><meta http-equiv="refresh" content="5"></noscript>`) {
				t.Errorf("%s does not load itself again where there is no script", target)
			}
			return pid.ReplaceAllString(plain(a.body), "pid N")
		}
		home := shows("/", "2 locks held or waited for, 2 contended, 2 waiters", "In the way", "2 processes wait behind it")
		for _, text := range []string{"db-2 pid N deploy holds migrate for", "api-7 pid N deploy waits for migrate", "api-8 pid N deploy waits for deploy"} {
			if !strings.Contains(home, text) {
				t.Errorf("the first page does not say %q: %s", text, home)
			}
		}
		lock := shows("/lock?name=deploy", "api-8", "released", "How long 1 of them waited")
		for _, text := range []string{"lock held by api-7 pid N deploy for", "1 waiter", "Its holder waits, too for migrate, held by db-2 pid N", "redis-cli HGETALL deploy",
			"redis-cli PTTL deploy", "mortise unlock --ask --wait 10s deploy", "This dashboard is read-only", "The last minute",
			"They are to be run against the Redis that this dashboard looks at: give redis-cli its address with -h and -p, and mortise its URL with --redis."} {
			if !strings.Contains(lock, text) {
				t.Errorf("the page of a lock does not say %q: %s", text, lock)
			}
		}
		shows("/clients", "api-7", "api-8", "db-2", "v1.2.3")
		id := regexp.MustCompile(`client\?id=([0-9a-f-]{36})[^>]*>api-7`).FindStringSubmatch(s.get("/clients", "api-7").body)
		if id == nil {
			t.Fatal("the page of clients has no link to one")
		}
		client := shows("/client?id="+id[1], "In its way")
		for _, text := range []string{"api-7 pid N", "It waits", "db-2 pid N deploy holds migrate", "Holds What it holds Lock", "deploy lock", id[1]} {
			if !strings.Contains(client, text) {
				t.Errorf("the page of a client does not say %q: %s", text, client)
			}
		}
		shows("/events", "deploy", "acquired", "waiting")
		shows("/events?q=no-such-lock", "No such event among the last")
		shows("/health", "commands a second", "Versions of mortise", "in order", "As mortise doctor found it at")
		shows("/lock?name=free", "Nobody holds it.")
		shows("/client?id=gone", "This client tells nothing about its process")
	})
}

// Commands are for the Redis that the dashboard was told of.
func TestCommandsHaveAnAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cli := func(string) string { return "redis-cli -h db -p 1" }
		s := newStage(t, &dashboard.Options{Prefix: "app:", Mortise: "mortise --redis redis://db:1", RedisCLI: cli})
		got := plain(s.get("/lock?name=deploy", "redis-cli -h db -p 1 HGETALL app:deploy", "mortise --redis redis://db:1 show --prefix app: deploy").body)
		if strings.Contains(got, "to be run against") {
			t.Errorf("a dashboard that knows the address asks for it: %s", got)
		}
	})
}

// A goroutine that waits keeps another one of its process from nothing.
func TestOtherGoroutinesBlockNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		server, job := s.client("web-1"), s.client("job-1")
		s.hold(job, "report")
		s.hold(server, "order:1")
		s.wait(t.Context(), server, "report") // not under the hold of order:1
		s.wait(t.Context(), s.client("web-2"), "order:1")
		got := plain(s.get("/", "web-2", "web-1", "job-1", "2 contended").body)
		for _, want := range []string{`job-1 pid \d+ deploy holds report for \S+; 1 process waits behind it web-1`, `web-1 pid \d+ deploy holds order:1 for \S+; 1 process waits behind it web-2`} {
			if !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("there is no %s: %s", want, got)
			}
		}
		if got := plain(s.get("/lock?name=order:1", "held by web-1", "web-2").body); strings.Contains(got, "waits itself") {
			t.Errorf("a holder is said to wait, and only another goroutine does: %s", got)
		}
	})
}

// Semaphores and latches are shown with their numbers.
func TestSemaphores(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		c := s.client("gpu-1")
		permits := c.PermitSemaphore("gpu")
		if err := permits.SetPermits(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if _, _, err := permits.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Semaphore("unused").TrySetPermits(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		if got := plain(s.get("/semaphores", "gpu permits 2 gpu-1").body); strings.Contains(got, "unused") {
			t.Errorf("a number that nobody uses is taken for a semaphore: %s", got)
		}
		s.get("/lock?name=unused", "Its number is 7.")
		s.get("/lock?name=gpu", "permits: 2 free, held by gpu-1")
		s.get("/?kind=permitsemaphore", "gpu")
	})
}

// A lock with more holders than are listed is held, those who tell of themselves are named, and all are counted.
func TestLockOfACrowd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		hold, _, err := s.client("api-7").RWLock("config").Read().Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		crowd := driver.NewScript("crowd", `for i = 1, 1200 do
			local h = '8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:' .. i
			redis.call('hset', KEYS[1], h, 1) redis.call('set', '{config}:' .. h .. ':rwlock_timeout:1', 1, 'px', 60000) end return 1`)
		if _, err := s.sent.Driver.Eval(t.Context(), driver.Call{Script: crowd, Keys: []string{"config"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		for range 3 { // each look sees others of them
			s.get("/lock?name=config", "held by api-7", "200 other holders")
			time.Sleep(3 * time.Second)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// A process that had several permits has one lane of the timeline.
func TestTimelineHasProcesses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		var permits []*mortise.PermitSemaphore
		for _, host := range []string{"gpu-1", "gpu-2"} {
			permits = append(permits, s.client(host).PermitSemaphore("gpu"))
		}
		if err := permits[0].SetPermits(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			permit, _, err := permits[i%2].Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if i < 4 {
				time.Sleep(2 * time.Second)
				if err := permit.Unlock(); err != nil {
					t.Fatal(err)
				}
			}
		}
		body := s.get("/lock?name=gpu", "gpu-1", "gpu-2", "Past acquisitions", "How long 4 of them waited").body
		if n := strings.Count(body, `class="lane"`); n != 2 {
			t.Errorf("two processes have %d lanes: %s", n, plain(body))
		}
	})
}

// The first page is filtered, sorted and bounded by its URL.
func TestFilterAndOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		a, b := s.client("api-7"), s.client("mail-2") // which is part of no id
		for _, one := range []struct {
			client *mortise.Client
			lock   string
		}{{a, "orders:1"}, {b, "orders:2"}, {b, "billing"}} {
			s.hold(one.client, one.lock)
			time.Sleep(time.Millisecond) // records have milliseconds
		}
		s.wait(t.Context(), a, "orders:2")
		s.get("/", "3 locks held or waited for, 1 contended, 1 waiter")
		for target, want := range map[string]string{
			"/":                    "orders:2 orders:1 billing",
			"/?sort=name":          "billing orders:1 orders:2",
			"/?sort=held":          "orders:1 orders:2 billing",
			"/?sort=wait":          "orders:2 orders:1 billing",
			"/?q=orders":           "orders:2 orders:1",
			"/?q=orders:%3f":       "orders:2 orders:1",
			"/?q=MAIL-2":           "orders:2 billing",
			"/?q=api-7":            "orders:2 orders:1",
			"/?only=contended":     "orders:2",
			"/?kind=fairlock":      "",
			"/?q=no-such-name":     "",
			"/?kind=lock&q=b*":     "billing",
			"/?q=orders&sort=name": "orders:1 orders:2",
		} {
			redistest.Eventually(t, target+" shows "+want, func() error {
				var names []string
				for _, row := range rowNames.FindAllStringSubmatch(s.do(http.MethodGet, target, "").body, -1) {
					names = append(names, row[1])
				}
				if got := strings.Join(names, " "); got != want {
					return fmt.Errorf("it shows %q", got)
				}
				return nil
			})
		}
	})
}

var rowNames = regexp.MustCompile(`<tr id="lock-[^>]*><th scope="row"><a href="[^"]*">([^<]*)<`)

// Clients that wait for each other are named on each page.
func TestDeadlockIsOnEachPage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		c, d := s.client("left"), s.client("right")
		_, underC := s.hold(c, "c")
		_, underD := s.hold(d, "d")
		s.wait(underC, c, "d")
		s.wait(underD, d, "c")
		for _, page := range []string{"/", "/lock?name=other", "/clients", "/client?id=x", "/semaphores", "/events", "/health"} {
			s.get(page, "Deadlock", "waits for")
		}
	})
}

// What others have written is text on the pages, whatever it is.
func TestHostileNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, &dashboard.Options{Release: true})
		odd := make([]byte, 512)
		for i := range odd {
			odd[i] = byte(i*7 + 1)
		}
		names := []string{
			`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "'onmouseover='alert(1)", "javascript:alert(1)", "{{.}}", "a\x1b[31mred", "line\nbreak",
			"\u202eright to left", "\xff\xfe not UTF-8", " spaces ", "$(reboot)", "a&b=c#d?e/f", string(odd),
		}
		c := mortise.New(s.server.Driver(), &mortise.Options{AllowAnyName: true, Identity: mortise.Identity{Host: `<b onclick="x">`, App: `</script><script>`, Extra: map[string]string{"<i>": "<u>"}}})
		t.Cleanup(func() { _ = c.Close() })
		for _, name := range names {
			s.hold(c, name)
		}
		pages := []string{"/", "/clients", "/events", "/health", "/semaphores", query("/client", "id", `"><script>`), query("/", "q", `"><script>alert(1)</script>`)}
		var home answer
		redistest.Eventually(t, "the first page leads to all locks", func() error {
			home = s.do(http.MethodGet, "/", "")
			for _, name := range names { // a record cannot tell a name that is not UTF-8; the search finds its key
				if link := query("lock", "name", name); !strings.Contains(html.UnescapeString(home.body), `href="`+link+`"`) {
					return fmt.Errorf("not to %q", name)
				}
			}
			return nil
		})
		id := regexp.MustCompile(`client\?id=([0-9a-f-]{36})`).FindStringSubmatch(home.body)
		pages = append(pages, "/client?id="+id[1])
		owner := regexp.MustCompile(`release\?lock=[^"]*owner=([^"&]*)`)
		for _, name := range names {
			target := query("/lock", "name", name)
			page := s.get(target, "held by")
			pages = append(pages, target, query("/release", "lock", name, "owner", "<script>"))
			if owner.FindStringSubmatch(page.body) == nil {
				t.Errorf("the page of %q has no link to its release", name)
			}
		}
		allowed := regexp.MustCompile(`<script defer src="assets/[a-z0-9.-]+\.js"></script>`)
		for _, page := range pages {
			body := allowed.ReplaceAllString(s.do(http.MethodGet, page, "").body, "")
			if bad := regexp.MustCompile(`(?i)<(script|img|b |i>|u>)[^>]*>?|<[^>]*\son[a-z]+=|href="javascript|ZgotmplZ|\x1b|\x{202e}`).FindString(body); bad != "" {
				t.Errorf("%s has %q", page, bad)
			}
		}
	})
}

// A dashboard that cannot read Redis says so, and shows no password.
func TestRedisIsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.hold(s.client("api-7"), "deploy")
		s.get("/", "deploy")
		s.server.Close()
		a := s.get("/", "Redis cannot be read", "What is shown is from", "deploy")
		if a.code != http.StatusOK {
			t.Errorf("it answers with %d", a.code)
		}
		never := newStage(t, nil)
		never.server.Close()
		if a := never.get("/", "Redis cannot be read", "Redis was not looked at yet"); a.code != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("a page that has nothing to show answers with %d", a.code)
		}
	})
}

// Redis refuses a right: the pages say so, and go on as soon as it does not any more.
func TestRightIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		redis := mortisetest.NewServer()
		defer redis.Close()
		s := &stage{t: t, pages: dashboard.New(redis.Link(), nil)}
		defer func() { _ = s.pages.Close() }()
		redis.Refuse(mortisetest.NoPermission)
		a := s.get("/", "Redis refuses a right", "NOPERM", "asks again every 15s")
		if a.code != http.StatusServiceUnavailable {
			t.Errorf("a page that has nothing to show answers with %d", a.code)
		}
		redis.Refuse("")
		if a := s.get("/", "Nothing is held."); strings.Contains(a.body, "refuses") {
			t.Errorf("it still says that a right is missing: %s", plain(a.body))
		}
	})
}

// A closed dashboard answers, and does not begin again.
func TestClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		if err := s.pages.Close(); err != nil {
			t.Fatal(err)
		}
		if a := s.do(http.MethodGet, "/", ""); a.code != http.StatusServiceUnavailable {
			t.Errorf("it answers with %d", a.code)
		}
		if n := s.sent.n.Load(); n != 0 {
			t.Errorf("a dashboard that nobody has looked at has sent %d commands", n)
		}
	})
}

// All processes of `mortise run` have one name: what they run tells them apart.
func TestProgramBehindMortiseRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		c := s.process(mortise.Identity{Host: "api-7", App: "mortise", Extra: map[string]string{"command": "migrate.sh"}})
		past, _ := s.hold(c, "job")
		if err := past.Unlock(); err != nil {
			t.Fatal(err)
		}
		s.hold(c, "job")
		s.wait(t.Context(), s.client("api-8"), "job")
		for _, target := range []string{"/", "/lock?name=job", "/clients", "/events"} {
			if text := plain(s.get(target, "migrate.sh").body); !strings.Contains(text, "mortise: migrate.sh") {
				t.Errorf("%s does not name the program: %s", target, text)
			}
		}
	})
}
