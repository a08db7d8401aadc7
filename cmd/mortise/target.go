package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/doctor"
)

// Where the URL and the password of Redis may come from, besides the flags.
const (
	envRedisFile    = "MORTISE_REDIS_URL_FILE" // a file with the URL
	envPasswordFile = "MORTISE_PASSWORD_FILE"
	envPassword     = "REDISCLI_AUTH" // that of redis-cli
)

// target is the Redis to use.
type target struct {
	url  string // with its password, wherever that came from
	from string // the flag or variable that the URL came from
	err  error  // a file could not be read
}

func (a *app) redisFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.Var((*filled)(&a.redis), "redis", "`URL` of Redis or Valkey (default $MORTISE_REDIS_URL, $REDIS_URL, "+defaultRedis+")")
	flags.Var((*filled)(&a.passwordFile), "password-file", "`FILE` with the password, in place of one in the URL (default $"+envPasswordFile+", $"+envPassword+")")
}

// target returns the Redis to use. Files are read once: they may be pipes.
func (a *app) target() target {
	a.aimed.Do(func() { a.aim = a.findTarget() })
	return a.aim
}

// url returns the URL of the Redis to use.
func (a *app) url() string { return a.target().url }

func (a *app) findTarget() target {
	t := a.findURL()
	if t.err != nil {
		return t
	}
	switch file := a.getenv(envPasswordFile); {
	case a.passwordFile != "":
		t.addPasswordOf(a.passwordFile, "--password-file")
	case hasPassword(t.url):
	case file != "":
		t.addPasswordOf(file, "$"+envPasswordFile)
	case a.getenv(envPassword) != "":
		t.url = withPassword(t.url, a.getenv(envPassword))
	}
	return t
}

func (a *app) findURL() target {
	for _, t := range []target{{url: a.redis, from: "--redis"}, {url: a.getenv(envRedis), from: "$" + envRedis}} {
		if t.url != "" {
			return t
		}
	}
	if file := a.getenv(envRedisFile); file != "" {
		text, err := firstLine(file, "$"+envRedisFile)
		return target{url: text, from: "$" + envRedisFile, err: err}
	}
	if text := a.getenv("REDIS_URL"); text != "" {
		return target{url: text, from: "$REDIS_URL"}
	}
	return target{url: defaultRedis, from: "the default"}
}

func (t *target) addPasswordOf(file, from string) {
	password, err := firstLine(file, from)
	if t.err = err; err == nil {
		t.url = withPassword(t.url, password)
	}
}

// firstLine returns the first line of a file.
func firstLine(file, from string) (string, error) {
	text, err := os.ReadFile(file)
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err // without the name: it may be the password itself, by mistake
	}
	if err != nil {
		return "", usageError("", "the file of %s cannot be read: %w", from, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", &exitError{code: exitUsage, err: errors.New("the file of " + from + " is empty")}
	}
	return line, nil
}

// userPart cuts a URL around its user part, which ends at the last @.
func userPart(text string) (scheme, user, rest string) {
	scheme, rest, _ = strings.Cut(text, "://")
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		return scheme, rest[:i], rest[i+1:]
	}
	return scheme, "", rest
}

func hasPassword(text string) bool {
	_, user, _ := userPart(text)
	_, password, _ := strings.Cut(user, ":")
	return password != ""
}

// withPassword returns a URL with a password in place of its own.
func withPassword(text, password string) string {
	scheme, user, rest := userPart(text)
	if rest == "" || strings.EqualFold(scheme, "mem") {
		return text
	}
	name, _, _ := strings.Cut(user, ":")
	return scheme + "://" + name + ":" + strings.ReplaceAll(url.QueryEscape(password), "+", "%20") + "@" + rest
}

// passOnRedis adds to the environment of a command how a mortise inside it finds the same Redis. What came by the
// environment is there already. A password that came otherwise is not put there, where other programs may show
// it, but into a file that only this user can read.
func (a *app) passOnRedis(set map[string]string) {
	if a.redis == "" && a.passwordFile == "" {
		return
	}
	text := a.url()
	set[envRedis], set[envRedisFile] = text, ""
	if connect.Redact(text) == text {
		return
	}
	set[envRedis] = ""
	path, err := a.hide(text)
	if err != nil {
		a.say("the password of Redis cannot be passed on to a mortise inside the command: %v", err)
		return
	}
	set[envRedisFile] = path
}

// connectHint says what to do when Redis could not be reached or refused the connection, or its answer is late. The server is that
// of a cluster that was asked, if that is known.
func (a *app) connectHint(phase connect.Phase, server string, err error) string {
	t := a.target()
	tried := fmt.Sprintf("Tried %s (%s). ", connect.Redact(t.url), t.from)
	if server != "" {
		tried = fmt.Sprintf("Tried %s, of the cluster of %s (%s). ", server, connect.Redact(t.url), t.from)
	}
	switch phase {
	case connect.PhaseResolve:
		return tried + "Check the name of the host, and this machine's DNS."
	case connect.PhaseTLS:
		return tried + "Is it a port for TLS? If not, write redis://. The options tls_ca=FILE and\n" +
			"tls_server_name=NAME of the URL say which certificate to accept, tls_cert=FILE&tls_key=FILE which to show."
	case connect.PhaseAuth:
		return tried + "Check the user and the password. A password comes from the URL,\n" +
			"redis://user:password@host, in MORTISE_REDIS_URL rather than on the command line, where others can see it;\n" +
			"from --password-file; or from " + envPassword + "."
	}
	if what := doctor.Unanswered(err); what != "" {
		return wrapped(tried+what, reportColumns, 0) + "\nTo see the same from this machine: " + redisCLI(t.url, "")(server) + " ping"
	}
	return tried + "Start Redis there, or choose another with --redis URL or MORTISE_REDIS_URL.\n" +
		"To try mortise without Redis: mortise demo, or mortise server."
}
