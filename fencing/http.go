package fencing

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
)

// The headers with which tokens travel.
const (
	// TokenHeader carries the token of a request, in decimal.
	TokenHeader = "Mortise-Token"
	// NewestHeader carries the newest token that the resource has seen, in the
	// answer to a stale one.
	NewestHeader = "Mortise-Newest-Token"
)

// SetToken puts the token of a hold into the header of a request. It does not
// block.
func SetToken(h http.Header, token int64) { h.Set(TokenHeader, strconv.FormatInt(token, 10)) }

// Refused returns an error that matches [ErrStale] if r is the answer of a
// [Handler] that refused the token of its request, and nil otherwise. It does
// not read the body.
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

// Handler returns a handler that hands to next only requests whose token is not
// older than the newest that their resource has seen. Resource tells what a
// request writes to; where it returns the empty text no token is needed, as for
// requests that only read.
//
// The check and the work are one step, in this process: when a newer token
// comes, the context of requests with an older one ends, with a cause that
// matches [ErrStale], and the newer one waits until they have returned. Requests
// with the same token run at the same time.
//
// Its own answers are text that says what happened:
//
//   - 409 Conflict: the token is stale. NewestHeader has the newest.
//   - 428 Precondition Required: there is no token.
//   - 400 Bad Request: it is no number above 0.
//   - 503 Service Unavailable: the store failed, as a [Guard] does that sees that
//     Redis has lost the newest token, or the request ended while it waited for
//     older ones to return.
//
// What it does not guarantee: the order of requests that different processes
// handle, even if they share a store. An older one that was admitted by one
// process may be at work while another admits a newer one. If several processes
// write to the same data, the token must be checked where the data are; hand it
// on with [Token].
func Handler(store Store, resource func(*http.Request) string, next http.Handler) http.Handler {
	return &handler{store: store, resource: resource, next: next, gates: make(map[string]*gate)}
}

type tokenKey struct{}

// Token returns the token with which a [Handler] has admitted a request, from
// the request's context, and 0 if there is none.
func Token(ctx context.Context) int64 {
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

// gate is what goes on with one resource in this process. It exists as long as
// any request has to do with it, from before the store is asked: so a request
// cannot slip in between after a newer one.
type gate struct {
	requests int                // guarded by handler.mu, like all here
	newest   int64              // that came in
	working  map[*work]struct{} // with the newest token, or with older ones that are to return
	changed  chan struct{}      // closed, and made anew, when one has returned
}

// work is a request that was handed on.
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

// enter waits until all requests with older tokens have returned, and makes them
// do so.
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

// attempt notes that mine is at work, or fails. If it has to wait for others, it
// returns what is closed when one of them has returned.
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
