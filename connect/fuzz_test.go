package connect

import (
	"net/url"
	"strings"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, template := range leakTemplates {
		f.Add(strings.ReplaceAll(template, "%s", "secret"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		shown := Redact(text)
		a, err := parse(text)
		if err != nil {
			return // and it did not panic
		}
		if a.kind != embedded && len(a.hosts) == 0 {
			t.Errorf("parse(%q) accepts a URL without a host", text)
		}
		// What is shown of a good URL says where it leads, and nothing that it hides.
		if again, err := parse(shown); err != nil || strings.Join(again.hosts, ",") != strings.Join(a.hosts, ",") || again.db != a.db {
			t.Errorf("%q is shown as %q, which leads elsewhere: %+v, %v", text, shown, again, err)
		}
		if _, err := clientOption(&address{kind: a.kind, tls: a.tls, unix: a.unix, hosts: a.hosts, db: a.db, master: a.master}); err != nil {
			t.Errorf("clientOption of %q: %v", text, err)
		}
	})
}

// A password never shows, whatever is around it, and whether it is encoded as it should be or not.
func FuzzSecrets(f *testing.F) {
	f.Add("redis", "user", "p@ss/%#?:x", "host:6379/0", "sentinel_password")
	f.Add("rediss-sentinel", "", "a b", "h1,h2?master=m", "tls_insecure")
	f.Add("unix", "u", "%zz", "/run/redis.sock?db=1", "db")
	f.Add("http", "u:v", "\n", "h#x", "%73entinel_password")
	f.Fuzz(func(t *testing.T, scheme, user, password, rest, option string) {
		const mark = "s3cr"
		for _, part := range []string{scheme, user, password, rest, option} {
			if strings.Contains(strings.ToLower(part), mark) {
				return
			}
		}
		password = mark + password + mark
		for _, written := range []string{password, url.PathEscape(password), url.QueryEscape(password)} {
			texts := []string{scheme + "://" + user + ":" + written + "@" + rest, scheme + "://" + written + "@" + rest}
			if strings.Contains(written, ":") {
				texts = texts[:1] // text before a colon is a user, and shown
			}
			if name, err := url.QueryUnescape(option); err != nil || !isShown(name) {
				texts = append(texts, "redis-sentinel://h?master=m&"+option+"="+url.QueryEscape(password))
			}
			for _, text := range texts {
				_, err := parse(text)
				if err != nil && strings.Contains(strings.ToLower(err.Error()), mark) {
					t.Errorf("the error of %q shows the password: %v", text, err)
				}
				if shown := Redact(text); strings.Contains(strings.ToLower(shown), mark) {
					t.Errorf("Redact(%q) shows the password: %s", text, shown)
				}
			}
		}
	})
}

// isShown reports whether values of an option are no secrets.
func isShown(option string) bool {
	for _, name := range shown {
		if name == option {
			return true
		}
	}
	return strings.ContainsAny(option, "&=#@") || option == ""
}
