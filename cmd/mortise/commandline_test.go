package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A command line that is shown has the global flags that were given, and no secret.
func TestSelf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pass")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		redis, file, prefix string
		env                 map[string]string
		want                string
	}{
		{want: "mortise"},
		{env: map[string]string{envRedis: "redis://:s3cret@r", envPrefix: "app:"}, want: "mortise"},
		{redis: "redis://r:1/2", prefix: "it's", want: `mortise --redis redis://r:1/2 --prefix 'it'\''s'`},
		{redis: "redis://:s3cret@r", want: "REDISCLI_AUTH=SECRET mortise --redis redis://r"},
		{redis: "rediss://worker:s3cret@r:1?tls_insecure=true", want: "REDISCLI_AUTH=SECRET mortise --redis 'rediss://worker@r:1?tls_insecure=true'"},
		{redis: "redis://worker@r", env: map[string]string{envPassword: "s3cret"}, want: "mortise --redis redis://worker@r"},
		{redis: "redis://worker@r", file: file, want: "mortise --redis redis://worker@r --password-file " + file},
		{redis: "redis://r", file: "s3cret", want: "mortise --redis redis://r --password-file FILE"},
		{redis: "redis://s3cret@r", want: "mortise --redis redis://r"}, // a user alone may be a password
		{redis: "redis://r?sentinel_password=s3cret", want: "mortise --redis URL"},
		{redis: "redis://a:s3/cret@r", want: "REDISCLI_AUTH=SECRET mortise --redis redis://a@r"},
		{redis: "s3cret", want: "mortise --redis URL"},
	} {
		a := &app{redis: test.redis, passwordFile: test.file, getenv: func(name string) string { return test.env[name] }}
		a.prefix.text, a.prefix.given = test.prefix, func() bool { return test.prefix != "" }
		if got := a.self(); got != test.want {
			t.Errorf("--redis %q: %s, want %s", test.redis, got, test.want)
		}
	}
}
