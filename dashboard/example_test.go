package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mortise-go/mortise/dashboard"
	"github.com/mortise-go/mortise/memredis"
)

// The dashboard is a part of a server that knows its users: everybody may look, and those on call may release locks.
func Example() {
	redis := memredis.New()
	defer redis.Close()
	onCall := func(r *http.Request) bool { return r.Header.Get("X-Team") == "on-call" }

	driver, mux := redis.Driver(), http.NewServeMux() // goredis.Wrap(rdb) is such a driver

	d := dashboard.New(driver, &dashboard.Options{
		Title:   "staging",
		Prefix:  "staging:",
		Mortise: "mortise --redis redis://redis:6379",
		Release: true,
		Authorize: func(r *http.Request, a dashboard.Action) error {
			if a.Verb != dashboard.View && !onCall(r) {
				return errors.New("only those on call release locks")
			}
			return nil
		},
	})
	defer d.Close()
	mux.Handle("/admin/locks/", http.StripPrefix("/admin/locks", d))

	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/admin/locks/clients", nil),
		post("/admin/locks/release?lock=deploy&owner=1", "do=release"),
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(r.Method, w.Code)
	}
	// Output:
	// GET 200
	// POST 403
}

func post(target, form string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}
