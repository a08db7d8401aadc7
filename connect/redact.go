package connect

import (
	"net/url"
	"slices"
	"strings"
)

// hidden replaces what Redact leaves out.
const hidden = "xxxxx"

// shown are the options whose values are not secret.
var shown = []string{"client_name", "db", "master", "sentinel_user", "tls_ca", "tls_cert", "tls_key", "tls_insecure", "tls_server_name"}

// Redact returns rawURL without its secrets, for logs and messages: a password becomes xxxxx, and
// so does the value of every option that is not known to be harmless. It accepts any text; if that
// is not a proper URL, it hides too much rather than too little.
func Redact(rawURL string) string {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(rawURL), "://")
	if _, known := schemes[strings.ToLower(scheme)]; !ok || !known {
		return hidden
	}
	var b strings.Builder
	b.WriteString(scheme)
	b.WriteString("://")
	if user, after, found := cutLast(rest, "@"); found {
		if name, _, ok := strings.Cut(user, ":"); ok && !strings.ContainsAny(user, "/?#@") {
			b.WriteString(name + ":")
		}
		b.WriteString(hidden + "@")
		rest = after
	}
	rest, _, cut := strings.Cut(rest, "#")
	place, query, hasQuery := strings.Cut(rest, "?")
	if looksRight(strings.ToLower(scheme), place) {
		b.WriteString(place)
	} else {
		b.WriteString(hidden)
	}
	if hasQuery {
		b.WriteString("?" + redactQuery(query))
	}
	if cut {
		b.WriteString("#" + hidden) // a password with an unencoded # ends here
	}
	return b.String()
}

// looksRight reports whether place consists of valid hosts and a database, or the path of a socket.
func looksRight(scheme, place string) bool {
	s, known := schemes[scheme]
	a := &address{kind: s.kind, tls: s.tls, unix: s.unix}
	return known && a.parsePlace(place, false) == nil
}

func redactQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		switch {
		case err != nil || !ok && pair != "":
			pairs[i] = hidden
		case ok && !slices.Contains(shown, plain),
			plain == "db" && strings.Trim(value, "0123456789") != "",
			plain == "tls_insecure" && value != "true":
			pairs[i] = name + "=" + hidden
		}
	}
	return strings.Join(pairs, "&")
}
