package fencing

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
)

// The headers that carry tokens.
const (
	// TokenHeader carries the token of a request, in decimal.
	TokenHeader = "Mortise-Token"
	// NewestHeader carries the newest token that the resource has seen, in the response to a
	// stale one.
	NewestHeader = "Mortise-Newest-Token"
)

// SetToken sets the token of a hold in the header of a request. It does not block. The service
// refuses 0, which a hold without token has, with 400 Bad Request.
func SetToken(h http.Header, token int64) { h.Set(TokenHeader, strconv.FormatInt(token, 10)) }

// Refused returns an error that matches [ErrStale] if r is the response of a [Handler] that refused
// the token of its request, and nil otherwise. It does not read the body.
func Refused(r *http.Response) error {
	newest, err := strconv.ParseInt(r.Header.Get(NewestHeader), 10, 64)
	if r.StatusCode != http.StatusConflict || err != nil {
		return nil
	}
	stale := &StaleError{Newest: newest}
	if r.Request != nil {
		stale.Resource = r.Request.URL.String()
		stale.Token, _ = strconv.ParseInt(r.Request.Header.Get(TokenHeader), 10, 64)
	}
	return stale
}

// Handler returns a handler that passes only those requests to next whose token is not older than
// the newest that their resource has seen. Resource returns what a request writes to; if it returns
// the empty text, no token is needed, as for requests that only read.
//
// The check and the work are one step, in this process: when a newer token comes, the context of
// requests with an older one ends, with a cause that matches [ErrStale], and the newer request
// waits until they have returned. Requests with the same token run concurrently.
//
// Its own responses are text that says what happened:
//
//   - 409 Conflict: the token is stale. NewestHeader has the newest.
//   - 428 Precondition Required: there is no token.
//   - 400 Bad Request: it is not a number above 0.
//   - 503 Service Unavailable: the store failed, for example a [Guard] that has noticed that Redis
//     lost the newest token; or the request ended while it waited for older ones to return.
//
// What it does not guarantee: the order of requests in different processes, even if they share a
// store. One process may be working on an older request that it has admitted while another admits a
// newer one. If several processes write to the same data, the token must be checked where the data
// is; pass it on with [RequestToken].
func Handler(store Store, resource func(*http.Request) string, next http.Handler) http.Handler {
	switch {
	case store == nil:
		panic("fencing: nil store")
	case resource == nil:
		panic("fencing: nil function")
	case next == nil:
		panic("fencing: nil handler")
	}
	return &handler{store: store, resource: resource, next: next, gates: make(map[string]*gate)}
}

type tokenKey struct{}

// RequestToken returns the token with which a [Handler] has admitted a request, from the request's
// context, and 0 if there is none. It knows nothing of locks that this process holds: the token of
// those is that of [github.com/mortise-go/mortise.HoldFrom].
func RequestToken(ctx context.Context) int64 {
	token, _ := ctx.Value(tokenKey{}).(int64)
	return token
}

type handler struct {
	store    Store
	resource func(*http.Request) string
	next     http.Handler

	mu    sync.Mutex
	gates map[string]*gate // guarded by mu
}

// gate tracks one resource in this process. It exists as long as any request for the resource, from
// before the store is asked: so an older request cannot slip in after a newer one.
type gate struct {
	requests int                // guarded by handler.mu, like all fields here
	newest   int64              // the newest token that came in
	working  map[*work]struct{} // requests with the newest token, and older ones that have not returned yet
	changed  chan struct{}      // closed and replaced when a request has returned
}

// work is a request that was passed on.
type work struct {
	token int64
	end   context.CancelCauseFunc
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := h.resource(r)
	if resource == "" {
		h.next.ServeHTTP(w, r)
		return
	}
	text := r.Header.Get(TokenHeader)
	if text == "" {
		http.Error(w, "the header "+TokenHeader+" with the fencing token of the lock is missing", http.StatusPreconditionRequired)
		return
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil || token < 1 {
		http.Error(w, "the header "+TokenHeader+" holds no fencing token", http.StatusBadRequest)
		return
	}

	g := h.open(resource)
	defer h.close(resource, g)
	if err := h.store.Admit(r.Context(), resource, token); err != nil {
		refuse(w, err)
		return
	}
	ctx, end := context.WithCancelCause(context.WithValue(r.Context(), tokenKey{}, token))
	defer end(nil)
	mine := &work{token, end}
	if err := h.enter(ctx, g, resource, mine); err != nil {
		refuse(w, err)
		return
	}
	defer h.leave(g, mine)
	h.next.ServeHTTP(w, r.WithContext(ctx))
}

func refuse(w http.ResponseWriter, err error) {
	var stale *StaleError
	if errors.As(err, &stale) {
		w.Header().Set(NewestHeader, strconv.FormatInt(stale.Newest, 10))
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	http.Error(w, "the fencing token could not be checked: "+err.Error(), http.StatusServiceUnavailable)
}

func (h *handler) open(resource string) *gate {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.gates[resource]
	if g == nil {
		g = &gate{working: make(map[*work]struct{}), changed: make(chan struct{})}
		h.gates[resource] = g
	}
	g.requests++
	return g
}

func (h *handler) close(resource string, g *gate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g.requests--; g.requests == 0 {
		delete(h.gates, resource)
	}
}

// enter ends all requests with older tokens, and waits until they have returned.
func (h *handler) enter(ctx context.Context, g *gate, resource string, mine *work) error {
	for {
		changed, err := h.attempt(g, resource, mine)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// attempt registers mine as working, or fails. If mine has to wait for others, it returns a channel
// that is closed when one of them has returned.
func (h *handler) attempt(g *gate, resource string, mine *work) (changed <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if mine.token < g.newest {
		return nil, &StaleError{Resource: resource, Token: mine.token, Newest: g.newest}
	}
	g.newest = mine.token
	for other := range g.working {
		if other.token < mine.token {
			changed = g.changed
			other.end(&StaleError{Resource: resource, Token: other.token, Newest: mine.token})
		}
	}
	if changed == nil {
		g.working[mine] = struct{}{}
	}
	return changed, nil
}

func (h *handler) leave(g *gate, mine *work) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(g.working, mine)
	close(g.changed)
	g.changed = make(chan struct{})
}
