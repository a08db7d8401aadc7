package fencing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/memredis"
)

func byPath(r *http.Request) string {
	if r.Method == http.MethodGet {
		return ""
	}
	return r.URL.Path
}

// put sends a request with a token, and returns the response.
func put(ctx context.Context, h http.Handler, path string, token int64) *http.Response {
	r := httptest.NewRequestWithContext(ctx, http.MethodPut, path, nil)
	fencing.SetToken(r.Header, token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer := w.Result()
	answer.Request = r
	return answer
}

// stores runs f with each kind of store for a Handler.
func stores(t *testing.T, f func(t *testing.T, store fencing.Store)) {
	t.Run("Memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, new(fencing.Memory)) })
	})
	t.Run("Guard", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := memredis.New()
			defer s.Close()
			g := fencing.NewGuard(s.Driver())
			defer g.Close()
			f(t, g)
		})
	})
}

// What is no token must not look like one that is older than all others.
func TestStoresRefuseWhatIsNoToken(t *testing.T) {
	stores(t, func(t *testing.T, store fencing.Store) {
		for _, token := range []int64{0, -1, -1 << 63} {
			if err := store.Admit(t.Context(), "r", token); !errors.Is(err, mortise.ErrInvalid) || errors.Is(err, fencing.ErrStale) {
				t.Errorf("the token %d: %v, want ErrInvalid", token, err)
			}
		}
		if err := store.Admit(t.Context(), "r", 1); err != nil {
			t.Errorf("the token 1 afterwards: %v, want none", err)
		}
	})
}

func TestHandlerRefusesStaleTokens(t *testing.T) {
	stores(t, func(t *testing.T, store fencing.Store) {
		served := 0
		h := fencing.Handler(store, byPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served++
			if token := fencing.RequestToken(r.Context()); r.Method == http.MethodPut && token == 0 || r.Method == http.MethodGet && token != 0 {
				t.Errorf("the handler of a %s got the token %d", r.Method, token)
			}
		}))
		for _, test := range []struct {
			path  string
			token int64
			want  int
		}{
			{"/a", 5, 200}, {"/a", 5, 200}, {"/a", 4, 409}, {"/a", 10, 200}, {"/a", 9, 409}, {"/b", 1, 200}, {"/a", 10, 200},
		} {
			answer := put(t.Context(), h, test.path, test.token)
			if answer.StatusCode != test.want {
				t.Errorf("%s with %d: %s, want %d", test.path, test.token, answer.Status, test.want)
			}
			err := fencing.Refused(answer)
			if stale := test.want == 409; stale != errors.Is(err, fencing.ErrStale) {
				t.Errorf("%s with %d: Refused = %v", test.path, test.token, err)
			}
		}
		if served != 5 {
			t.Errorf("%d requests were served, want 5", served)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a", nil) // needs none
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Errorf("a request without a resource: %d", w.Code)
		}
	})
}

func TestHandlerAnswersSayWhatHappened(t *testing.T) {
	h := fencing.Handler(new(fencing.Memory), byPath, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	put(t.Context(), h, "/a", 34)
	for _, test := range []struct {
		token string
		code  int
		body  string
	}{
		{"33", 409, `token 33 for "/a" is stale: 34 has been seen`},
		{"", 428, "is missing"},
		{"x", 400, "no fencing token"}, {"0", 400, "no fencing token"}, {"-1", 400, "no fencing token"},
		{"9223372036854775808", 400, "no fencing token"}, {"1 2", 400, "no fencing token"}, {"1.5", 400, "no fencing token"},
	} {
		r := httptest.NewRequest(http.MethodPut, "/a", nil)
		if test.token != "" {
			r.Header.Set(fencing.TokenHeader, test.token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.body) {
			t.Errorf("the token %q: %d %q, want %d with %q", test.token, w.Code, w.Body, test.code, test.body)
		}
	}
}

// A newer request ends the context of an older one that is in progress, and waits until it has
// returned; an even older one is refused meanwhile.
func TestHandlerLetsOlderRequestsReturnFirst(t *testing.T) {
	stores(t, func(t *testing.T, store fencing.Store) {
		var order []string
		h := fencing.Handler(store, byPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			token := fencing.RequestToken(r.Context())
			if token == 2 {
				order = append(order, "2 done")
				return
			}
			<-r.Context().Done()
			var stale *fencing.StaleError
			if err := context.Cause(r.Context()); !errors.As(err, &stale) || stale.Token != 1 || stale.Newest != 2 {
				t.Errorf("the older request's context ended with %v, want ErrStale of 1 after 2", err)
			}
			time.Sleep(time.Second) // it takes a while to stop
			order = append(order, "1 done")
		}))
		var all sync.WaitGroup
		all.Go(func() { put(t.Context(), h, "/a", 1) })
		synctest.Wait()
		start := time.Now()
		all.Go(func() {
			if answer := put(t.Context(), h, "/a", 2); answer.StatusCode != 200 || time.Since(start) != time.Second {
				t.Errorf("after %v: %s, want 200 after 1s", time.Since(start), answer.Status)
			}
		})
		time.Sleep(time.Second / 2)
		if answer := put(t.Context(), h, "/a", 1); answer.StatusCode != 409 || time.Since(start) != time.Second/2 {
			t.Errorf("an older one after %v: %s, want 409 at once", time.Since(start), answer.Status)
		}
		all.Wait()
		if len(order) != 2 || order[0] != "1 done" {
			t.Errorf("the order was %v", order)
		}
	})
}

func TestHandlerGivesUpWaitingWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		h := fencing.Handler(new(fencing.Memory), byPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if fencing.RequestToken(r.Context()) != 1 {
				t.Error("two were at work at once")
			}
			<-stop // ignores its context
		}))
		var all sync.WaitGroup
		all.Go(func() { put(t.Context(), h, "/a", 1) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if answer := put(ctx, h, "/a", 2); answer.StatusCode != 503 {
			t.Errorf("%s, want 503", answer.Status)
		}
		close(stop)
		all.Wait()
	})
}

// While the store is asked, another, newer request comes and goes: the older one must not slip in
// behind it.
func TestHandlerRefusesWhoWasOvertakenWhileTheStoreWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := slowStore{pause: map[int64]time.Duration{1: time.Second}}
		var served []int64
		h := fencing.Handler(&slow, byPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			served = append(served, fencing.RequestToken(r.Context()))
		}))
		var all sync.WaitGroup
		all.Go(func() {
			if answer := put(t.Context(), h, "/a", 1); answer.StatusCode != 409 {
				t.Errorf("the one that was overtaken: %s, want 409", answer.Status)
			}
		})
		synctest.Wait()
		if answer := put(t.Context(), h, "/a", 2); answer.StatusCode != 200 {
			t.Errorf("the newer one: %s", answer.Status)
		}
		all.Wait()
		if len(served) != 1 || served[0] != 2 {
			t.Errorf("served were %v, want only 2", served)
		}
	})
}

// slowStore answers late.
type slowStore struct {
	fencing.Memory
	pause map[int64]time.Duration
}

func (s *slowStore) Admit(ctx context.Context, resource string, token int64) error {
	err := s.Memory.Admit(ctx, resource, token)
	time.Sleep(s.pause[token])
	return err
}

func TestHandlerWithAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		g := fencing.NewGuard(s.Driver())
		defer g.Close()
		s.Close()
		h := fencing.Handler(g, byPath, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was served") }))
		answer := put(t.Context(), h, "/a", 1)
		if answer.StatusCode != 503 || fencing.Refused(answer) != nil {
			t.Errorf("%s, Refused = %v, want 503 and nil", answer.Status, fencing.Refused(answer))
		}
	})
}

// A panic of the handler must not block later requests.
func TestHandlerSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fencing.Handler(new(fencing.Memory), byPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if fencing.RequestToken(r.Context()) == 1 {
				panic("by the test")
			}
		}))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			put(t.Context(), h, "/a", 1)
		}()
		if answer := put(t.Context(), h, "/a", 2); answer.StatusCode != 200 {
			t.Error(answer.Status)
		}
	})
}

// Under -race: what is written under rising tokens never goes back.
func TestHandlerServesTokensInOrder(t *testing.T) {
	stores(t, func(t *testing.T, store fencing.Store) {
		var log []int64 // protected only by the handler
		h := fencing.Handler(store, byPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			log = append(log, fencing.RequestToken(r.Context()))
			time.Sleep(time.Millisecond)
		}))
		var all sync.WaitGroup
		for i := range int64(100) {
			all.Go(func() {
				time.Sleep(time.Duration(i%7) * time.Millisecond)
				put(t.Context(), h, "/a", i+1)
			})
		}
		all.Wait()
		for i := 1; i < len(log); i++ {
			if log[i] <= log[i-1] {
				t.Errorf("%d was served after %d", log[i], log[i-1])
			}
		}
		if log[len(log)-1] != 100 {
			t.Errorf("the last was %d", log[len(log)-1])
		}
	})
}

func TestRefusedIsForRefusalsOnly(t *testing.T) {
	for _, answer := range []*http.Response{
		{StatusCode: 200, Header: http.Header{}},
		{StatusCode: 409, Header: http.Header{}}, // another server's conflict
		{StatusCode: 409, Header: http.Header{fencing.NewestHeader: {"x"}}},
	} {
		if err := fencing.Refused(answer); err != nil {
			t.Errorf("%d: %v", answer.StatusCode, err)
		}
	}
	err := fencing.Refused(&http.Response{StatusCode: 409, Header: http.Header{fencing.NewestHeader: {"7"}}})
	wantStale(t, err, 0, 7)
}
