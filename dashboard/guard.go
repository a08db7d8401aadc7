package dashboard

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// policy is what a page may do: run its own script, load its own style, ask its own server. Nothing is loaded from
// elsewhere, nothing inline runs, and no other page may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// mostBody is the largest body of a request that is read.
const mostBody = 16 << 10

// guarded returns a handler that refuses what no page of the dashboard asks for.
func (b *Dashboard) guarded(next http.Handler) http.Handler {
	sameSite := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !b.isHost(r) {
			b.fail(w, r, http.StatusMisdirectedRequest, "This server does not answer to that name",
				"The request was for the host "+shown(r.Host)+". If that is a name of this server, it belongs in the list of hosts: --host of mortise serve, or Options.Hosts.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		if err := sameSite.Check(r); err != nil {
			b.log(r, "refused", wanted(r), err)
			b.fail(w, r, http.StatusForbidden, "Another site has sent this request", "Nothing was done. Actions are only taken from pages of this dashboard.")
			return
		}
		if isForeign(sameSite, r) {
			b.fail(w, r, http.StatusForbidden, "Another site has sent this request", "A page of another site may lead here, and may not load what is here by itself.")
			return
		}
		if what := tooLong(r); what != "" {
			b.fail(w, r, http.StatusBadRequest, "The address is too long", what)
			return
		}
		switch r.Method {
		case http.MethodGet, http.MethodHead:
		case http.MethodPost:
			if strings.TrimPrefix(r.URL.Path, "/") == releasePath {
				break
			}
			fallthrough
		default:
			h.Set("Allow", "GET, HEAD")
			b.fail(w, r, http.StatusMethodNotAllowed, "This page can only be looked at", "The method "+shown(r.Method)+" is not accepted here.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// wanted returns what a request is for.
func wanted(r *http.Request) Action {
	q := r.URL.Query()
	a := Action{View, q.Get("lock"), q.Get("owner")}
	if strings.TrimPrefix(r.URL.Path, "/") == releasePath && r.Method == http.MethodPost && r.ParseForm() == nil {
		if verb := verbs[r.PostForm.Get("do")]; verb != "" {
			a.Verb = verb
		}
	}
	return a
}

// isHost reports whether the host that a request is for is one of the dashboard's.
func (b *Dashboard) isHost(r *http.Request) bool {
	host := withoutPort(r.Host)
	if len(b.options.Hosts) > 0 {
		return slices.ContainsFunc(b.options.Hosts, func(one string) bool { return strings.EqualFold(withoutPort(one), host) })
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return !ok || !isLoopback(withoutPort(local.String())) || strings.EqualFold(host, "localhost") || isLoopback(host)
}

// withoutPort returns the host of an address, without its port and without brackets.
func withoutPort(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return strings.TrimSuffix(host, ".")
	}
	return strings.TrimSuffix(strings.Trim(address, "[]"), ".")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
