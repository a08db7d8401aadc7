package behavior

import (
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/fencing"
	"github.com/mortise-go/mortise/memredis"
)

// panicOf returns what f panics with, or nil.
func panicOf(f func()) (text any) {
	defer func() { text = recover() }()
	f()
	return nil
}

var (
	contexts = reflect.TypeFor[context.Context]()
	works    = reflect.TypeFor[func(context.Context) error]()
)

// everyMethod calls f with each exported method of v whose first parameter is a context, and
// with arguments for the others that are acceptable.
func everyMethod(v any, f func(name string, method reflect.Value, rest []reflect.Value)) (n int) {
	receiver := reflect.ValueOf(v)
	for i := range receiver.NumMethod() {
		name, method := receiver.Type().Method(i).Name, receiver.Method(i)
		of := method.Type()
		if of.NumIn() == 0 || of.In(0) != contexts {
			continue
		}
		n++
		f(name, method, others(of))
	}
	return n
}

// others returns acceptable arguments for all parameters but the first of a method.
func others(method reflect.Type) (rest []reflect.Value) {
	for i := 1; i < method.NumIn(); i++ {
		in := method.In(i)
		if method.IsVariadic() && i == method.NumIn()-1 {
			in = in.Elem()
		}
		argument := reflect.New(in).Elem()
		switch in.Kind() {
		case reflect.Int:
			argument.SetInt(1)
		case reflect.Int64:
			argument.SetInt(int64(time.Minute))
		case reflect.String:
			argument.SetString("0123456789abcdef0123456789abcdef")
		case reflect.Func:
			argument.Set(reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.Zero(in.Out(0))} }))
		default:
		}
		rest = append(rest, argument)
	}
	return rest
}

// A nil context is a mistake in the program, which no method of any kind passes on.
func TestNilContextPanics(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		term, _ := mustLead(t, c.Election("lead"), t.Context(), "v")
		member, _, err := c.DoubleBarrier("double", 1).Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := f.Total()
		methods := 0
		for _, v := range []any{
			c, c.Lock("a"), c.FencedLock("a"), c.SpinLock("a"), c.FairLock("a"), c.GroupLock("g", "v"),
			c.RWLock("rw").Read(), c.RWLock("rw").Write(), mortise.NewMultiLock(c.Lock("a"), c.Lock("b")),
			mortise.NewRedlock("a", c), c.Semaphore("s"), c.PermitSemaphore("p"), c.CountDownLatch("l"),
			c.Election("e"), c.Barrier("b", 2), c.DoubleBarrier("d", 2), term, member,
		} {
			methods += everyMethod(v, func(name string, method reflect.Value, rest []reflect.Value) {
				arguments := append([]reflect.Value{reflect.Zero(contexts)}, rest...)
				if got := panicOf(func() { method.Call(arguments) }); got != "mortise: nil context" {
					t.Errorf("%T.%s panicked with %v, want: mortise: nil context", v, name, got)
				}
			})
		}
		if methods < 70 {
			t.Errorf("%d methods with a context were found, want 70 at least", methods)
		}
		var none context.Context
		for name, f := range map[string]func(){
			"WithOwner": func() { mortise.WithOwner(none) }, "Detach": func() { mortise.Detach(none) },
			"HoldFrom": func() { _, _ = mortise.HoldFrom(none) },
		} {
			if got := panicOf(f); got != "mortise: nil context" {
				t.Errorf("%s panicked with %v, want: mortise: nil context", name, got)
			}
		}
		if n := f.Total(); n != before {
			t.Errorf("%d scripts were sent, want none", n-before)
		}
		if err := member.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if err := term.Resign(); err != nil {
			t.Error(err)
		}
	})
}

// Do with a nil function panics before it acquires anything.
func TestNilFunctionPanics(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		for _, v := range []any{
			c.Lock("a"), c.FencedLock("a"), c.SpinLock("a"), c.FairLock("a"), c.GroupLock("g", "v"),
			c.RWLock("rw").Read(), c.RWLock("rw").Write(), mortise.NewMultiLock(c.Lock("a"), c.Lock("b")),
			mortise.NewRedlock("a", c), c.Semaphore("s"), c.PermitSemaphore("p"),
		} {
			found := false
			everyMethod(v, func(name string, method reflect.Value, rest []reflect.Value) {
				if name != "Do" {
					return
				}
				found = true
				rest[len(rest)-1] = reflect.Zero(works)
				arguments := append([]reflect.Value{reflect.ValueOf(t.Context())}, rest...)
				if got := panicOf(func() { method.Call(arguments) }); got != "mortise: nil function" {
					t.Errorf("%T.Do panicked with %v, want: mortise: nil function", v, got)
				}
			})
			if !found {
				t.Errorf("%T has no method Do", v)
			}
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent, want none", n)
		}
	})
}

func TestNilPartsPanic(t *testing.T) {
	t.Parallel()
	path := func(r *http.Request) string { return r.URL.Path }
	next := http.NotFoundHandler()
	for want, f := range map[string]func(){
		"mortise: nil driver":   func() { mortise.New(nil, nil) },
		"fencing: nil driver":   func() { fencing.NewGuard(nil) },
		"fencing: nil store":    func() { fencing.Handler(nil, path, next) },
		"fencing: nil function": func() { fencing.Handler(new(fencing.Memory), nil, next) },
		"fencing: nil handler":  func() { fencing.Handler(new(fencing.Memory), path, nil) },
	} {
		if got := panicOf(f); got != want {
			t.Errorf("it panicked with %v, want: %s", got, want)
		}
	}
}
