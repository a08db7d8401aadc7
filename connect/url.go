package connect

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// kind is the kind of deployment that a URL names.
type kind int

const (
	server kind = iota
	sentinel
	cluster
	embedded
)

// schemes are the known schemes; tls says which use TLS.
var schemes = map[string]struct {
	kind kind
	tls  bool
	unix bool
}{
	"redis": {}, "valkey": {}, "rediss": {tls: true}, "valkeys": {tls: true},
	"unix":           {unix: true},
	"redis-sentinel": {kind: sentinel}, "rediss-sentinel": {kind: sentinel, tls: true},
	"redis+cluster": {kind: cluster}, "rediss+cluster": {kind: cluster, tls: true},
	"mem": {kind: embedded},
}

// forms is shown in errors about a scheme.
const forms = `the forms are
  redis://[[user]:password@]host[:port][/db]              one server; rediss:// for TLS, valkey:// and valkeys:// likewise
  unix://[[user]:password@]/path/to.sock[?db=N]           a Unix socket
  redis-sentinel://[[user]:password@]h1[:port],h2[/db]?master=NAME   sentinels; rediss-sentinel:// for TLS
  redis+cluster://[[user]:password@]h1[:port],h2          a cluster; rediss+cluster:// for TLS
  mem://                                                  an embedded server in this process`

// address is a parsed URL.
type address struct {
	kind             kind
	tls, unix        bool
	hosts            []string // host:port, or the path of the socket
	user, password   string
	db               int
	options          map[string]string
	master           string
	sentinelUser     string
	sentinelPassword string
}

// optionsOf returns the options that a kind of URL allows.
func optionsOf(a *address) []string {
	names := []string{"client_name"}
	if a.unix {
		names = append(names, "db")
	}
	if a.kind == sentinel {
		names = append(names, "master", "sentinel_user", "sentinel_password")
	}
	if a.tls {
		names = append(names, "tls_ca", "tls_cert", "tls_key", "tls_insecure", "tls_server_name")
	}
	if a.kind == embedded {
		return nil
	}
	return names
}

// parse parses a URL. It does not use url.Parse, which does not know lists of hosts, and repeats
// its input in errors. The errors of parse contain nothing that may be a secret: not the user part,
// and no value of an option.
func parse(text string) (*address, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(text), "://")
	s, known := schemes[strings.ToLower(scheme)]
	switch {
	case !ok:
		return nil, fmt.Errorf("the Redis URL has no scheme; %s", forms)
	case !known:
		return nil, fmt.Errorf("the Redis URL has the unknown scheme %s; %s", showName(strings.ToLower(scheme)), forms)
	}
	a := &address{kind: s.kind, tls: s.tls, unix: s.unix, options: map[string]string{}}
	if strings.Contains(rest, "#") {
		return nil, errors.New("the Redis URL contains #; in a password write %23")
	}
	// The user part ends at the last @, even if its special characters are not encoded as they
	// should be: nothing in it may be mistaken for a part that may be shown.
	user, rest, hasUser := cutLast(rest, "@")
	if hasUser {
		if err := a.parseUser(user); err != nil {
			return nil, err
		}
	}
	place, query, _ := strings.Cut(rest, "?")
	if err := a.parsePlace(place, hasUser); err != nil {
		return nil, err
	}
	if err := a.parseQuery(query); err != nil {
		return nil, err
	}
	if a.kind == sentinel && a.master == "" {
		return nil, errors.New("the Redis URL names no master for the sentinels; add ?master=NAME")
	}
	if a.kind == cluster && a.db != 0 {
		return nil, fmt.Errorf("the Redis URL asks for database %d, but a cluster has only database 0", a.db)
	}
	return a, nil
}

// showName shows an unknown scheme or option if it looks like one: anything else may be a part of a
// password.
func showName(s string) string {
	for _, c := range s {
		if (c < 'a' || 'z' < c) && !strings.ContainsRune("+-_", c) {
			return "(not shown)"
		}
	}
	return strconv.Quote(s)
}

// cutLast cuts s at the last sep. Without one, after is all of s.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

func (a *address) parseUser(text string) error {
	user, password, ok := strings.Cut(text, ":")
	if !ok {
		// Some programs take such a part for a user, some for a password.
		return errors.New("the Redis URL has a user part without a colon; write USER:PASSWORD@, or :PASSWORD@ without a user")
	}
	if strings.ContainsAny(text, "/?@") {
		return errors.New("the user part of the Redis URL contains / or ? or @; in a password write %2F, %3F and %40")
	}
	var err1, err2 error
	a.user, err1 = url.PathUnescape(user)
	a.password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New("the user part of the Redis URL contains a % that does not begin an escape; write %25")
	}
	if a.user != "" && a.password == "" {
		return errors.New("the Redis URL names a user and no password")
	}
	return nil
}

func (a *address) parsePlace(place string, hasUser bool) error {
	switch {
	case a.kind == embedded:
		if place != "" || hasUser {
			return errors.New("the embedded server has no host, user or database: write mem://")
		}
		return nil
	case a.unix:
		path, err := url.PathUnescape(place)
		if err != nil || !strings.HasPrefix(path, "/") {
			return errors.New("the unix URL names no absolute path; write unix:///path/to.sock")
		}
		a.hosts = []string{path}
		return nil
	}
	hosts, path, _ := strings.Cut(place, "/")
	if path != "" {
		db, err := strconv.Atoi(path)
		if err != nil || db < 0 {
			return a.noDatabase()
		}
		a.db = db
	}
	list := strings.Split(hosts, ",")
	if len(list) > 1 && a.kind == server {
		return errors.New("the Redis URL names several hosts; write redis+cluster:// or redis-sentinel:// for them")
	}
	for _, h := range list {
		host, err := hostPort(h, a.kind)
		if err != nil {
			return err
		}
		if slices.Contains(a.hosts, host) {
			return fmt.Errorf("the Redis URL names the host %s twice", host)
		}
		a.hosts = append(a.hosts, host)
	}
	return nil
}

// noDatabase returns the error for a path that is no number of a database.
func (a *address) noDatabase() error {
	if a.kind == sentinel {
		return errors.New("the path of the Redis URL is not a database number; the name of the master is an option, ?master=NAME; in a password write %2F for /")
	}
	return errors.New("the path of the Redis URL is not a database number; in a password write %2F for /")
}

// hostPort adds the port to a host of a URL. Its errors do not repeat an invalid host: it may be a
// password in the wrong place, as in redis://user:password.
func hostPort(text string, k kind) (string, error) {
	port := "6379"
	if k == sentinel {
		port = "26379"
	}
	host := text
	switch {
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		host = text[1 : len(text)-1]
	case strings.Contains(text, ":"):
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return "", errors.New("the Redis URL has a malformed host; write host:port, with brackets around an IPv6 address")
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", errors.New("the Redis URL has a port that is not a number from 1 to 65535; a password goes before an @")
		}
	}
	host = strings.Replace(host, "%25", "%", 1) // before a zone, as RFC 6874 has it
	if err := checkHost(host); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

// checkHost returns why a host, without a port, is invalid, or nil.
func checkHost(host string) error {
	if host == "" {
		return errors.New("the Redis URL has an empty host")
	}
	for _, c := range host {
		switch {
		case strings.ContainsRune(".-_:", c), unicode.IsLetter(c), unicode.IsDigit(c):
		case c == '%' && strings.Contains(host, ":"): // the zone of an IPv6 address
		case unicode.IsSpace(c):
			return errors.New("the Redis URL has a host with a blank; write several as host:port,host:port, without blanks")
		default:
			return fmt.Errorf("the Redis URL has a host with the character %q, which is not allowed in hosts", c)
		}
	}
	return nil
}

func (a *address) parseQuery(query string) error {
	if query == "" {
		return nil
	}
	known := optionsOf(a)
	for pair := range strings.SplitSeq(query, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err1 := url.QueryUnescape(rawName)
		value, err2 := url.QueryUnescape(rawValue)
		switch {
		case err1 != nil || err2 != nil:
			return errors.New("an option of the Redis URL contains a % that does not begin an escape; write %25")
		case !slices.Contains(known, name):
			return fmt.Errorf("the Redis URL has the unknown option %s; this form knows %s", showName(name), listOf(known))
		case value == "":
			return fmt.Errorf("the option %s of the Redis URL is empty", name)
		}
		if _, twice := a.options[name]; twice {
			return fmt.Errorf("the Redis URL has the option %s twice", name)
		}
		a.options[name] = value
		switch name {
		case "db":
			db, err := strconv.Atoi(value)
			if err != nil || db < 0 {
				return errors.New("the option db of the Redis URL is not a database number")
			}
			a.db = db
		case "tls_insecure":
			if value != "true" {
				return errors.New("the option tls_insecure of the Redis URL can only be true; or leave it out")
			}
		}
	}
	if (a.options["tls_cert"] == "") != (a.options["tls_key"] == "") {
		return errors.New("the Redis URL has one of tls_cert and tls_key; they go together")
	}
	a.master = a.options["master"]
	a.sentinelUser, a.sentinelPassword = a.options["sentinel_user"], a.options["sentinel_password"]
	return nil
}

func listOf(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
