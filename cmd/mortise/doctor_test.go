package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mortise-go/mortise/doctor"
)

func TestSentinelsOfAURL(t *testing.T) {
	for _, test := range []struct {
		url    string
		want   []string
		master string
	}{
		{"redis://host:1", nil, ""},
		{"redis-sentinel://u:p@a,b:2,[::1]/3?master=m", []string{"redis://a:26379", "redis://b:2", "redis://[::1]:26379"}, "m"},
		{"rediss-sentinel://:p@ss@a?master=m&sentinel_password=x%2Fy&tls_insecure=true", []string{"rediss://:x%2Fy@a:26379?tls_insecure=true"}, "m"},
		{"redis-sentinel://a?sentinel_user=s&sentinel_password=p&master=m", []string{"redis://s:p@a:26379"}, "m"},
	} {
		addrs, urlOf, master := sentinelsOf(test.url)
		var got []string
		for _, addr := range addrs {
			got = append(got, urlOf(addr))
		}
		if !slices.Equal(got, test.want) || master != test.master {
			t.Errorf("%s: %q, %q, want %q, %q", test.url, got, master, test.want, test.master)
		}
	}
}

// Each command that is printed is for the server of the URL, with its user and what it says of TLS, and without its password.
func TestCommandsOfAURL(t *testing.T) {
	for _, test := range []struct{ url, server, want, admin, mortise string }{
		{"redis://host", "", "redis-cli -h host -p 6379", "redis-cli -h host -p 6379 --user ADMIN --askpass", "mortise --redis redis://host"},
		{
			"redis://worker:secret@host:1/2", "other:3", "redis-cli -h other -p 3 --user worker --askpass", "redis-cli -h other -p 3 --user ADMIN --askpass",
			"mortise --redis redis://worker@host:1/2",
		},
		{"unix://:secret@/a/b.sock", "/a/b.sock", "redis-cli -s /a/b.sock --askpass", "redis-cli -s /a/b.sock --user ADMIN --askpass", "mortise --redis unix:///a/b.sock"},
		{
			"rediss://[::1]:1?tls_ca=/c%20a.pem&tls_cert=c.pem&tls_key=k.pem&tls_server_name=redis&tls_insecure=true", "",
			"redis-cli -h ::1 -p 1 --tls --cacert '/c a.pem' --cert c.pem --key k.pem --sni redis --insecure",
			"redis-cli -h ::1 -p 1 --tls --cacert '/c a.pem' --cert c.pem --key k.pem --sni redis --insecure --user ADMIN --askpass",
			"mortise --redis 'rediss://[::1]:1?tls_ca=/c%20a.pem&tls_cert=c.pem&tls_key=k.pem&tls_server_name=redis&tls_insecure=true'",
		},
		{
			"rediss+cluster://u:secret@a:1,b:2?tls_ca=ca.pem", "", "redis-cli -h a -p 1 --tls --cacert ca.pem --user u --askpass",
			"redis-cli -h a -p 1 --tls --cacert ca.pem --user ADMIN --askpass", "mortise --redis 'rediss+cluster://u@a:1,b:2?tls_ca=ca.pem'",
		},
		{
			"redis-sentinel://u:secret@a:1,b:2?master=m", "10.0.0.1:6379", "redis-cli -h 10.0.0.1 -p 6379 --user u --askpass",
			"redis-cli -h 10.0.0.1 -p 6379 --user ADMIN --askpass", "mortise --redis 'redis-sentinel://u@a:1,b:2?master=m'",
		},
		{"redis-sentinel://a?master=m&sentinel_password=secret", "b:1", "redis-cli -h b -p 1", "redis-cli -h b -p 1 --user ADMIN --askpass", "mortise --redis URL"},
	} {
		if got := redisCLI(test.url, "")(test.server); got != test.want {
			t.Errorf("%s: %s, want %s", test.url, got, test.want)
		}
		if got := redisCLI(test.url, "ADMIN")(test.server); got != test.admin {
			t.Errorf("%s, of ADMIN: %s, want %s", test.url, got, test.admin)
		}
		if got := (&app{redis: test.url, getenv: func(string) string { return "" }}).again(); got != test.mortise {
			t.Errorf("%s: %s, want %s", test.url, got, test.mortise)
		}
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := &app{redis: "redis://worker:@host", passwordFile: password, getenv: func(string) string { return "" }}
	if got, want := file.again(), "mortise --redis redis://worker@host --password-file "+password; got != want {
		t.Errorf("with a file: %s, want %s", got, want)
	}
	if got := (&app{getenv: func(string) string { return "redis://:secret@host" }}).again(); got != "mortise" {
		t.Errorf("with a URL in the environment: %s", got)
	}
}

// The phases of connecting are those of the first host.
func TestPhasesOfAURL(t *testing.T) {
	for url, want := range map[string]string{
		"mem://": "[] false", "redis://127.0.0.1": "[connect] false", "redis://:p@10.0.0.1": "[connect auth] true", "rediss://localhost": "[resolve connect tls] false",
		"redis-sentinel://a:1,b:2?master=m": "[resolve connect] true", "rediss+cluster://:p@10.0.0.1:1,10.0.0.2:2": "[connect tls auth] false", "unix:///s": "[connect] false",
	} {
		phases, plain := passed(url)
		if got := fmt.Sprint(phases, plain); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestCountsOfFindings(t *testing.T) {
	for want, counts := range map[string]map[doctor.Severity]int{
		"1 critical, 2 warnings, 3 unknown, 2 info, 1 accepted, 24 ok": {doctor.OK: 24, doctor.Info: 2, doctor.Unknown: 3, doctor.Warning: 2, doctor.Critical: 1, "accepted": 1},
		"1 warning, 2 ok": {doctor.Warning: 1, doctor.OK: 2},
	} {
		if got := countsText(counts); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
