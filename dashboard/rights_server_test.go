//go:build server

package dashboard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/dashboard"
	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The rights for people who only look are enough for all pages, and change nothing.
func TestRightsToLook(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	words, err := doctor.Rule{User: "viewer", Prefix: "app:", Kinds: []doctor.Kind{doctor.KindLook}}.Words()
	if err != nil {
		t.Fatal(err)
	}
	redis.Must(t, words...)
	own, err := connect.Open(t.Context(), "redis://"+redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c := mortise.New(own, &mortise.Options{Prefix: "app:", History: 5})
	defer c.Close()
	past(t, c)
	hold := taken(t, c)
	defer func() { _ = hold.Unlock() }()
	d, err := connect.Open(t.Context(), "redis://viewer:SECRET@"+redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	pages := dashboard.New(d, &dashboard.Options{Prefix: "app:", Release: true})
	server := httptest.NewServer(pages)
	t.Cleanup(func() {
		_ = pages.Close()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	for path, text := range map[string]string{"/": "deploy fair lock", "/lock?name=deploy": "From its clients’ record", "/semaphores": "No client holds a permit", "/events": "deploy", "/health": "As mortise doctor found it"} {
		redistest.Eventually(t, path+" shows "+text, func() error {
			if got := fetch(t, server.URL+path); !strings.Contains(got, text) || strings.Contains(got, "refuses") || strings.Contains(got, "cannot be read") || strings.Contains(got, "SECRET") {
				return errorOf(got)
			}
			return nil
		})
	}
	redis.Must(t, "HSET", "app:old", "8f1c2b3a-0000-4000-8000-000000000001:77", "1")
	response, err := http.Post(server.URL+query("/release", "lock", "old", "owner", "8f1c2b3a-0000-4000-8000-000000000001:77"), "application/x-www-form-urlencoded", strings.NewReader("do=release"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusConflict || !strings.Contains(plain(string(body)), "Nothing was done") {
		t.Errorf("a release without the right to it answers with %s, %s, %v", response.Status, plain(string(body)), err)
	}
	if n := redis.Must(t, "EXISTS", "app:old"); n != int64(1) {
		t.Errorf("the lock is gone: %v", n)
	}
}

// taken acquires the fair lock deploy.
func taken(t *testing.T, c *mortise.Client) *mortise.Hold {
	t.Helper()
	hold, _, err := c.FairLock("deploy").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// past makes an entry in the history of the lock deploy.
func past(t *testing.T, c *mortise.Client) {
	t.Helper()
	if err := taken(t, c).Unlock(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "it is in the history", func() error {
		past, err := c.History(t.Context(), "deploy", 1)
		if err == nil && len(past) == 0 {
			return errorOf("no entry")
		}
		return err
	})
}

// fetch returns the text of a page.
func fetch(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return plain(string(body))
}
