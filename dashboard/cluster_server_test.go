//go:build server

package dashboard_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/dashboard"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// While a master of a cluster is frozen, each page says so, and shows what the others have and what that one had.
func TestMasterIsFrozen(t *testing.T) {
	cluster := redistest.Cluster(t, 0, "--cluster-require-full-coverage", "no")
	open := func() driver.Driver {
		d, err := connect.Open(t.Context(), "redis+cluster://"+cluster.Addrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	holder := mortise.New(open(), nil)
	t.Cleanup(func() { _ = holder.Close() })
	hold := func(name string) {
		if _, _, err := holder.Lock(name).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, master := range cluster.Masters {
		names = append(names, cluster.KeyOn(t, master, "job"))
		hold(names[len(names)-1])
	}
	pages := dashboard.New(open(), nil)
	server := httptest.NewServer(pages)
	t.Cleanup(func() {
		if err := pages.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	shows := func(when, missing string, names ...string) {
		t.Helper()
		redistest.Eventually(t, "the page "+when, func() error { return showsPart(server.URL, missing, names) })
	}
	shows("before", "", names...)
	frozen := cluster.Masters[1]
	frozen.Pause(t)
	shows("during the freeze", frozen.Addr(), names...)
	late := cluster.KeyOn(t, cluster.Masters[2], "late")
	hold(late)
	shows("with what has come since", frozen.Addr(), append(names, late)...)
	frozen.Resume(t)
	shows("after the freeze", "", append(names, late)...)
}

// showsPart returns an error unless a page shows these names, and says that a server is missing if that is not empty.
func showsPart(address, missing string, names []string) error {
	r, err := http.Get(address)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	page := plain(string(body))
	_, alert, _ := strings.Cut(page, "A part of Redis cannot be read")
	if strings.Contains(page, "Redis cannot be read") != (missing != "") || !strings.Contains(alert, missing) {
		return fmt.Errorf("it does not say that %q is missing, or another:\n%s", missing, page)
	}
	for _, name := range names {
		if !strings.Contains(page, name) {
			return fmt.Errorf("it does not show %s:\n%s", name, page)
		}
	}
	return nil
}
