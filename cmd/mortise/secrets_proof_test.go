//go:build proof

package main

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// secretMark is in every password of these tests, and in nothing else.
const secretMark = "s3cr3t"

// The places in a URL where a password is right, or where one is written by mistake. ADDR is the server.
var secretURLs = []string{
	"redis://:%s@ADDR", "redis://nobody:%s@ADDR", "redis://%s@ADDR", "rediss://:%s@ADDR", "rediss://:%s@ADDR?tls_ca=/nonexistent", "redis://:%s@127.0.0.1:1",
	"redis://:%s@ADDR:99999", "redis://:%s@no-such-host.invalid", "redis-sentinel://:%s@ADDR?master=m&sentinel_password=%[1]s", "redis+cluster://:%s@ADDR",
	"http://:%s@ADDR", "redis:/:%s@ADDR", "redis://:%s@ADDR/x", "redis://ADDR?password=%s", "redis://ADDR/%s", "redis://ADDR#%s", "unix://:%s@/nonexistent/s",
	"mem://:%s@", ":%s@ADDR",
}

// The commands that connect, each with and without JSON.
var secretCommands = []string{
	"show job", "show job --json", "ls", "ls --json", "sem job show", "sem job set 1 --json", "latch job show", "latch job down --json", "unlock job",
	"unlock job --owner x", "tokens --idle 1h", "tokens --idle 1h --json", "run -v -n job -- true", "run -n --sem job -- true", "elect -n -v job -- true",
	"doctor", "doctor --json", "acl --shell",
}

// secretMistake is a command line with a password where none belongs.
type secretMistake struct{ env, args []string }

func secretMistakes(password, addr string) []secretMistake {
	host, url := []string{"MORTISE_REDIS_URL=redis://" + addr}, "redis://:"+url.PathEscape(password)+"@"+addr
	return []secretMistake{
		{host, []string{"--password-file", password}},
		{append(host, "MORTISE_PASSWORD_FILE="+password), nil},
		{[]string{"MORTISE_REDIS_URL_FILE=" + url}, nil},
		{nil, []string{"-p" + url}},
		{nil, []string{url}},
		{host, []string{"-a" + password}},
		{host, []string{"ls", "-p" + password}},
		{host, []string{"run", "-za" + password, "job", "--", "true"}},
		{nil, []string{"run", "job", url, "true"}},
		{nil, []string{"latch", "show", url}},
	}
}

// Wherever a password comes from, whatever characters it has, and whatever goes wrong, no command prints it.
func TestNoOutputShowsAPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	dir := t.TempDir()
	file := func(name, text string) string { return written(t, filepath.Join(dir, name), text+"\n") }
	turn, worked := 0, 0
	check := func(env []string, flags ...string) {
		t.Helper()
		args := append(strings.Fields(secretCommands[turn%len(secretCommands)]), "")
		args = append(flags, args[:len(args)-1]...)
		turn++
		cmd := exec.Command("mortise", args...)
		cmd.Env = append(os.Environ(), append([]string{"MORTISE_REDIS_URL=", "REDIS_URL=", "REDISCLI_AUTH="}, env...)...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			worked++
		}
		if strings.Contains(strings.ToLower(string(out)), secretMark) {
			t.Errorf("mortise %q with %q prints the password: %s", args, env, out)
		}
	}
	for i, password := range []string{secretMark, secretMark + " p@ss:/?#%&+é" + secretMark, `"'` + secretMark + "`$()\\\x1b" + secretMark} {
		server.Must(t, "CONFIG", "SET", "requirepass", password)
		wrong := password + "x"
		for _, form := range secretURLs {
			part := url.PathEscape(password)
			if turn%3 == 1 {
				part = password
			}
			text := fmt.Sprintf(strings.ReplaceAll(form, "ADDR", server.Addr()), part)
			text, _, _ = strings.Cut(text, "%!(EXTRA")
			switch turn % 4 {
			case 0:
				check(nil, "--redis", text)
			case 1:
				check([]string{"MORTISE_REDIS_URL=" + text})
			case 2:
				check([]string{"REDIS_URL=" + text})
			case 3:
				check([]string{"MORTISE_REDIS_URL_FILE=" + file(fmt.Sprint("url", i), text)})
			}
		}
		host := "MORTISE_REDIS_URL=redis://" + server.Addr()
		for _, text := range []string{password, wrong} {
			check([]string{host, "REDISCLI_AUTH=" + text})
			check([]string{host}, "--password-file", file(fmt.Sprint("password", i), text))
			check([]string{host, "MORTISE_PASSWORD_FILE=" + file(fmt.Sprint("password", i), text)})
			check([]string{"MORTISE_REDIS_URL=rediss://" + server.Addr(), "REDISCLI_AUTH=" + text})
			check([]string{"MORTISE_REDIS_URL=redis+cluster://" + server.Addr(), "REDISCLI_AUTH=" + text})
		}
		for _, m := range secretMistakes(password, server.Addr()) {
			check(m.env, m.args...)
		}
	}
	if worked < 6 {
		t.Errorf("%d commands of %d have reached the server with the right password, want more", worked, turn)
	}
}

// written writes a file, and returns its path.
func written(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
