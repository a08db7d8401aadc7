package connect

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	type opts = map[string]string
	tests := []struct {
		url  string
		want address
	}{
		{"redis://localhost", address{hosts: []string{"localhost:6379"}}},
		{"  redis://localhost/\n", address{hosts: []string{"localhost:6379"}}},
		{"REDIS://10.0.0.1:7000/3", address{hosts: []string{"10.0.0.1:7000"}, db: 3}},
		{"redis://:secret@h", address{hosts: []string{"h:6379"}, password: "secret"}},
		{"redis://user:p%40ss%2F%25%23%3F:x@h:1", address{hosts: []string{"h:1"}, user: "user", password: "p@ss/%#?:x"}},
		{"redis://:a+b@h", address{hosts: []string{"h:6379"}, password: "a+b"}},
		{"redis://:@h", address{hosts: []string{"h:6379"}}},
		{"redis://[::1]/0", address{hosts: []string{"[::1]:6379"}}},
		{"redis://[fe80::1%25eth0]:7", address{hosts: []string{"[fe80::1%eth0]:7"}}},
		{"redis://[fe80::1]:6380", address{hosts: []string{"[fe80::1]:6380"}}},
		{"redis://h?client_name=job+1", address{hosts: []string{"h:6379"}, options: opts{"client_name": "job 1"}}},
		{"valkey://h", address{hosts: []string{"h:6379"}}},
		{"rediss://h", address{hosts: []string{"h:6379"}, tls: true}},
		{"valkeys://h?tls_insecure=true", address{hosts: []string{"h:6379"}, tls: true, options: opts{"tls_insecure": "true"}}},
		{"rediss://h?tls_ca=%2Fca.pem&tls_cert=c&tls_key=k&tls_server_name=n", address{hosts: []string{"h:6379"}, tls: true,
			options: opts{"tls_ca": "/ca.pem", "tls_cert": "c", "tls_key": "k", "tls_server_name": "n"}}},
		{"unix:///run/redis.sock", address{unix: true, hosts: []string{"/run/redis.sock"}}},
		{"unix://u:p@/run/my%20redis.sock?db=2", address{unix: true, hosts: []string{"/run/my redis.sock"}, user: "u", password: "p", db: 2, options: opts{"db": "2"}}},
		{"redis-sentinel://a,b:1,[::1]/?master=m", address{kind: sentinel, hosts: []string{"a:26379", "b:1", "[::1]:26379"}, master: "m", options: opts{"master": "m"}}},
		{"rediss-sentinel://:p@a/5?master=m&sentinel_user=s&sentinel_password=q", address{kind: sentinel, tls: true, hosts: []string{"a:26379"},
			password: "p", db: 5, master: "m", sentinelUser: "s", sentinelPassword: "q",
			options: opts{"master": "m", "sentinel_user": "s", "sentinel_password": "q"}}},
		{"redis+cluster://a,b:7001", address{kind: cluster, hosts: []string{"a:6379", "b:7001"}}},
		{"rediss+cluster://u:p@a/0", address{kind: cluster, tls: true, hosts: []string{"a:6379"}, user: "u", password: "p"}},
		{"mem://", address{kind: embedded}},
	}
	for _, tt := range tests {
		if tt.want.options == nil {
			tt.want.options = opts{}
		}
		got, err := parse(tt.url)
		if err != nil || !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("parse(%q) = %+v, %v\nwant %+v", tt.url, got, err, tt.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ url, want string }{
		{"", "no scheme"},
		{"localhost:6379", "no scheme"},
		{"http://h", `unknown scheme "http"`},
		{"http://h", "redis+cluster://"}, // the forms
		{"pass word://h", "unknown scheme (not shown)"},
		{"redis://", "empty host"},
		{"redis://:6379", "empty host"},
		{"redis://h:0", "port"},
		{"redis://h:65536", "port"},
		{"redis://h:port", "port"},
		{"redis://::1", "brackets"},
		{"redis://h h", "blank"},
		{"redis://h/x", "database"},
		{"redis://h/-1", "database"},
		{"redis://h/0/1", "database"},
		{"redis://a,b", "several hosts"},
		{"redis+cluster://a,", "empty host"},
		{"redis+cluster://a,a:6379", "twice"},
		{"redis+cluster://a/1", "only database 0"},
		{"redis-sentinel://a", "?master=NAME"},
		{"redis-sentinel://a?master=", "empty"},
		{"redis-sentinel://a?master=m&master=n", "twice"},
		{"redis://secret@h", "colon"},
		{"redis://user:@h", "no password"},
		{"redis://:a@b@h", "%40"},
		{"redis://:a/b@h", "%2F"},
		{"redis://:a?b@h", "%3F"},
		{"redis://:a#b@h", "%23"},
		{"redis://:100%@h", "%25"},
		{"redis://h?x=%zz", "%25"},
		{"redis://h?db=1", `unknown option "db"; this form knows client_name`},
		{"redis://h?tls_ca=x", "unknown option"},
		{"redis://h?Secret!=x", "unknown option (not shown)"},
		{"rediss://h?tls_insecure=yes", "tls_insecure"},
		{"rediss://h?tls_cert=c", "go together"},
		{"unix://", "absolute path"},
		{"unix://relative.sock", "absolute path"},
		{"redis-sentinel://h/mymaster", "?master=NAME"},
		{"unix:///s?db=x", "database number"},
		{"mem://x", "write mem://"},
		{"mem://?client_name=x", "this form knows none"},
	}
	for _, tt := range tests {
		if a, err := parse(tt.url); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("parse(%q) = %+v, %v, want an error with %q", tt.url, a, err, tt.want)
		}
	}
}

func TestRedact(t *testing.T) {
	tests := []struct{ url, want string }{
		{"redis://localhost:6379/1", "redis://localhost:6379/1"},
		{"redis://user:secret@h/1", "redis://user:xxxxx@h/1"},
		{"redis://:secret@h", "redis://:xxxxx@h"},
		{"redis://secret@h", "redis://xxxxx@h"},
		{"redis://user:se@cret@h", "redis://xxxxx@h"},
		{"redis://user:se/cret@h", "redis://xxxxx@h"},
		{"redis://user:se#cret@h", "redis://xxxxx@h"},
		{"redis://user:secret", "redis://xxxxx"},
		{"redis://h/secret", "redis://xxxxx"},
		{"unix://u:p@/run/s?db=1", "unix://u:xxxxx@/run/s?db=1"},
		{"redis-sentinel://a,b?master=m&sentinel_password=p&x=y&z", "redis-sentinel://a,b?master=m&sentinel_password=xxxxx&x=xxxxx&xxxxx"},
		{"redis+cluster://a,b", "redis+cluster://a,b"},
		{"mem://", "mem://"},
		{"https://user:secret@h", "xxxxx"},
		{"secret", "xxxxx"},
		{"user:secret@h://x", "xxxxx"},
		{"", "xxxxx"},
	}
	for _, tt := range tests {
		if got := Redact(tt.url); got != tt.want {
			t.Errorf("Redact(%q) = %q, want %q", tt.url, got, tt.want)
		}
	}
}

// leakTemplates are right and wrong ways to write a password in a URL.
var leakTemplates = []string{
	"redis://user:%s@host:6379/0", "rediss://:%s@host", "redis://%s@host", "redis://user:%s", "redis://host/%s",
	"redis://u:%s@h:x", "redis://u:%s@h/x", "redis://u:%s@", "redis://u:%s@a,b", "redis://u:%s@h?nonsense=1",
	"redis://u:%s@[::1", "redis-sentinel://u:%s@a,b", "redis-sentinel://a?master=m&sentinel_password=%s&x=1",
	"redis+cluster://u:%s@a/9", "unix://u:%s@rel", "mem://u:%s@", "http://u:%s@h", "u:%s@h", "%s://h", "redis:/u:%s@h",
	"redis://h?password=%s", "redis://h:%s", "redis+cluster://h:%s,g", "redis://h#%s", "redis://h?db=%s", "unix:///s?db=%s",
	"rediss://h?tls_insecure=%s", "redis://u:%s%%@h", "redis://u:%%%s@h",
}

// TestNoPasswordInErrors passes passwords through every error of parse, encoded correctly and not.
func TestNoPasswordInErrors(t *testing.T) {
	const alphabet = `abcXYZ0189!"$&'()*+,-./:;<=>?@[\]^_{|}~ #%é`
	runes := []rune(alphabet)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		var b strings.Builder
		b.WriteString("s3Cr") // so that it does not occur in the texts by chance
		for range 1 + r.IntN(12) {
			b.WriteRune(runes[r.IntN(len(runes))])
		}
		password := b.String()
		template := leakTemplates[i%len(leakTemplates)]
		if template == "redis://%s@host" {
			password = strings.ReplaceAll(password, ":", "") // text before a colon is a user, and shown
		}
		for _, written := range []string{password, url.PathEscape(password), url.QueryEscape(password)} {
			text := fmt.Sprintf(template, written)
			_, err := parse(text)
			for what, shown := range map[string]string{"error": fmt.Sprint(err), "Redact": Redact(text)} {
				if strings.Contains(strings.ToLower(shown), "s3cr") {
					t.Fatalf("%s of %q shows the password: %s", what, text, shown)
				}
			}
		}
	}
}
