package dashboard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mortise-go/mortise/internal/keyspace"
)

// mostOwner is the longest owner in an address: several permits at once have one with all their ids.
const mostOwner = 4 << 10

// isForeign reports whether a page of another site asks by itself: each request for a page costs commands. A link that a
// user follows from there is not such a request, and is no stream either.
func isForeign(sameSite *http.CrossOriginProtection, r *http.Request) bool {
	as := r.WithContext(r.Context()) // a copy
	as.Method = http.MethodPost      // what is safe is not checked
	if sameSite.Check(as) == nil {
		return false
	}
	h := r.Header
	return h.Get("Sec-Fetch-Mode") != "navigate" || h.Get("Sec-Fetch-Dest") != "document" || h.Get("Sec-Purpose") != "" || isStream(r)
}

// tooLong says which parameter of a request is too long to be one of a page; nothing if none is. A page that is followed
// keeps its parameters in memory.
func tooLong(r *http.Request) string {
	if len(r.URL.RawQuery) > mostBody {
		return fmt.Sprintf("Its parameters have %d bytes; at most %d are allowed.", len(r.URL.RawQuery), mostBody)
	}
	for key, values := range r.URL.Query() {
		most := keyspace.MaxName
		if key == "owner" {
			most = mostOwner
		}
		if n := len(strings.Join(values, "")); n > most || len(key) > most {
			return fmt.Sprintf("The parameter %s has %d bytes; at most %d are allowed, as in the name of a lock. A lock with a longer name is shown by mortise inspect.", shown(brief(key)), n, most)
		}
	}
	return ""
}
