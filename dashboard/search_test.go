package dashboard_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// redissonLocks makes locks that no record tells of.
var redissonLocks = driver.NewScript("dashboard-test", `for i = 1, tonumber(ARGV[1]) do redis.call('hset', 'rl:' .. i, string.format('8f1c2b3a-0000-4000-8000-%012d:7', i), 1) end return 1`)

// Until all locks are found, the first page says that there may be more; one that is asked for by its name is there.
func TestSearchGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStage(t, nil)
		const all = "300 locks held"
		if _, err := s.server.Driver().Eval(t.Context(), driver.Call{Script: redissonLocks, Args: []string{"300"}}); err != nil {
			t.Fatal(err)
		}
		if got := s.do(http.MethodGet, "/?q=rl:299", ""); !strings.Contains(got.body, `href="lock?name=rl%3A299"`) || !strings.Contains(plain(got.body), "8f1c2b3a") {
			t.Errorf("a lock that is asked for by its name is not there: %s", plain(got.body))
		}
		if got := plain(s.do(http.MethodGet, "/?q=rl:none", "").body); !strings.Contains(got, "found so far matches") && !strings.Contains(got, "Nothing was found so far") {
			t.Errorf("it does not say that there may be more: %s", got)
		}
		partly := regexp.MustCompile(`A search for locks of Redisson, and of clients that hide, (goes on|has found)`)
		start, seen := time.Now(), 0
		for ; ; time.Sleep(250 * time.Millisecond) {
			got := plain(s.do(http.MethodGet, "/", "").body)
			if strings.Contains(got, all+" or waited for, nobody waits") {
				break
			}
			if seen++; !partly.MatchString(got) || !strings.Contains(got, "so far") && !strings.Contains(got, all) || strings.Contains(got, "Nothing is held") {
				t.Fatalf("after %v it does not say that there may be more: %s", time.Since(start), got)
			}
			if time.Since(start) > 10*time.Minute {
				t.Fatalf("not all locks are found after %v: %s", time.Since(start), got)
			}
		}
		t.Logf("all were there after %v and %d pages", time.Since(start), seen)
		if seen == 0 {
			t.Error("all locks were there at once: nothing was shown")
		}
		if got := plain(s.do(http.MethodGet, "/?q=rl:none", "").body); !strings.Contains(got, fmt.Sprintf("None of the %s matches.", "300 locks")) {
			t.Errorf("the search has ended, and it says: %s", got)
		}
	})
}
