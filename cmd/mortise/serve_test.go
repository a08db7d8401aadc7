package main

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestServeScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/serve-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts: %v, %v", files, err)
	}
	testscript.Run(t, testscript.Params{Files: files, RequireExplicitExec: true})
}

// startServe runs mortise serve and returns it with its address.
func startServe(t *testing.T, addr string, args ...string) (s *session, url string) {
	t.Helper()
	s = begin(t, addr, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	s.await(t, "Ctrl-C ends it")
	m := regexp.MustCompile(`The dashboard is at (https?://\S+/)\n`).FindStringSubmatch(s.out.text())
	if m == nil {
		t.Fatalf("it says %q, want its address", s.out.text())
	}
	return s, m[1]
}

// fetched is what a page has answered.
func fetched(t *testing.T, client *http.Client, r *http.Request) (int, string) {
	t.Helper()
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
