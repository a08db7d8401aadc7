package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// Commands on the pages are for the Redis that they show, and have no password.
func TestServedCommands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ mortise, cli string }{
		"redis://localhost:6379":             {"mortise --redis redis://localhost:6379", "redis-cli -h localhost -p 6379"},
		"redis://db/3":                       {"mortise --redis redis://db/3", "redis-cli -h db -p 6379 -n 3"},
		"redis://:hidden@db:1":               {"mortise --redis redis://db:1", "redis-cli -h db -p 1 --askpass"},
		"rediss://app:hidden@db:1/0":         {"mortise --redis rediss://app@db:1/0", "redis-cli -h db -p 1 --tls --user app --askpass"},
		"redis://hidden@db:1":                {"mortise --redis redis://db:1", "redis-cli -h db -p 1"},
		"unix://:hidden@/run/redis.sock":     {"mortise --redis unix:///run/redis.sock", "redis-cli -s /run/redis.sock --askpass"},
		"unix:///run/redis.sock?db=2":        {"mortise --redis 'unix:///run/redis.sock?db=2'", "redis-cli -s /run/redis.sock -n 2"},
		"redis+cluster://a,b:7":              {"mortise --redis redis+cluster://a,b:7", "redis-cli -h a -p 6379 -c"},
		"redis+cluster://[::1]:7":            {"mortise --redis 'redis+cluster://[::1]:7'", "redis-cli -h ::1 -p 7 -c"},
		"redis-sentinel://a:1,b:2?master=m":  {"mortise --redis 'redis-sentinel://a:1,b:2?master=m'", ""},
		"redis://db:1?password=hidden":       {"", ""},
		"redis://db:1?client_name=dashboard": {"mortise --redis 'redis://db:1?client_name=dashboard'", "redis-cli -h db -p 1"},
	} {
		s := servedRedis{url: withoutPassword(text), full: text}
		cli := ""
		if f := s.redisCLI(); f != nil {
			cli = f("")
		}
		if got := s.mortise(); got != want.mortise || cli != want.cli {
			t.Errorf("%s: %q and %q, want %q and %q", text, got, cli, want.mortise, want.cli)
		}
	}
}

// The Redis of the demonstration can be looked at by other commands, and the commands on its pages say where it is.
func TestServeDemoHasAnAddress(t *testing.T) {
	t.Parallel()
	s, url := startServe(t, "", "--demo")
	m := regexp.MustCompile(`\n  mortise --redis (redis://127\.0\.0\.1:\d+) top\n`).FindStringSubmatch(s.out.text())
	if m == nil {
		t.Fatalf("it says %q, want how to look at its Redis", s.out.text())
	}
	own := openClient(t, m[1])
	redistest.Eventually(t, "its Redis shows the fleet", func() error {
		clients, err := own.Clients(t.Context())
		if err == nil && len(clients) == 0 {
			return errors.New("there is no client")
		}
		return err
	})
	client := &http.Client{}
	defer client.CloseIdleConnections()
	host, port, _ := strings.Cut(strings.TrimPrefix(m[1], "redis://"), ":")
	redistest.Eventually(t, "the page of a lock has commands", func() error {
		_, body := fetched(t, client, request(t, url+"lock?name=backup"))
		for _, want := range []string{"mortise --redis " + m[1] + " show backup", "redis-cli -h " + host + " -p " + port + " HGETALL backup"} {
			if !strings.Contains(body, want) {
				return fmt.Errorf("it has no %s", want)
			}
		}
		return nil
	})
}

// A port that is in use causes an error with the same command for another port.
func TestServePortInUse(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	addr := other.Addr().String()
	for want, args := range map[string][]string{
		"mortise serve --demo --listen 127.0.0.1:0 --title 'a b' --load 50": {"serve", "--demo", "--title", "a b", "--load", "50", "--listen", addr},
		"The same with a free port: --listen 127.0.0.1:0":                   {"--redis", "mem://", "serve", "--listen", addr},
	} {
		var stdout, stderr bytes.Buffer
		a := &app{stdout: newOutput(&stdout), stderr: &stderr, getenv: func(string) string { return "" }}
		if code := a.main(args); code != exitUnreachable {
			t.Errorf("%q: exit code %d, want %d", args, code, exitUnreachable)
		}
		if got := stderr.String(); !strings.Contains(got, "mortise: cannot listen on "+addr+": ") || !strings.Contains(got, want+"\n") || stdout.Len() > 0 {
			t.Errorf("%q says %q on standard error, and %q", args, got, &stdout)
		}
	}
}
