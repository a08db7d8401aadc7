package behavior

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

var (
	atThree  = time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	apiSeven = mortise.ClientInfo{ID: "u", Host: "api-7", PID: 4121, App: "app", Started: atThree}
)

// The JSON forms are read by programs: neither a name nor a unit may change.
var jsonForms = []struct {
	value any
	want  string
}{
	{
		mortise.State{Name: "free", Kind: mortise.KindNone},
		`{"name":"free","kind":"none","locked":false,"ttl_ms":0,"holders":[]}`,
	}, {
		mortise.State{
			Name: "a<b", Kind: mortise.KindFairLock, Locked: true, TTL: 1500 * time.Millisecond, Mine: true, Token: 7,
			Holders: []mortise.Holder{{Owner: "u:1", Count: 2}}, Queue: []mortise.Waiter{{Owner: "u:2", TTL: time.Second}, {Owner: "u:3", TTL: -1}},
		},
		`{"name":"a<b","kind":"fairlock","locked":true,"ttl_ms":1500,"holders":[{"owner":"u:1","count":2}],"mine":true,"token":7,` +
			`"queue":[{"position":1,"owner":"u:2","ttl_ms":1000},{"position":2,"owner":"u:3","ttl_ms":-1}]}`,
	}, {
		mortise.State{Name: "e", Kind: mortise.KindElection, Locked: true, TTL: -1, Token: 9, Value: "v", Holders: []mortise.Holder{{Owner: "u:1", Count: 1}}},
		`{"name":"e","kind":"election","locked":true,"ttl_ms":-1,"holders":[{"owner":"u:1","count":1}],"term":9,"value":"v"}`,
	}, {
		mortise.State{Name: "p", Kind: mortise.KindPermits, Locked: true, TTL: time.Minute, Permits: []mortise.Permit{{ID: "ab", TTL: time.Minute}, {ID: "cd", TTL: -1}}},
		`{"name":"p","kind":"permitsemaphore","locked":true,"ttl_ms":60000,"holders":[],"available":0,"permits":[{"id":"ab","ttl_ms":60000},{"id":"cd","ttl_ms":-1}]}`,
	}, {
		mortise.State{Name: "n", Kind: mortise.KindNumber, Number: -3},
		`{"name":"n","kind":"number","locked":false,"ttl_ms":0,"holders":[],"number":-3}`,
	}, {
		mortise.State{Name: "rw", Kind: mortise.KindRWLock, Locked: true, TTL: time.Second, Mode: "write", Holders: []mortise.Holder{{Owner: "u:1:write", Count: -1}}},
		`{"name":"rw","kind":"rwlock","locked":true,"ttl_ms":1000,"holders":[{"owner":"u:1:write","count":-1}],"mode":"write"}`,
	},
	{
		mortise.State{
			Name: "l", Kind: mortise.KindFairLock, Locked: true, TTL: time.Second, Now: atThree.Add(1500 * time.Millisecond),
			Holders: []mortise.Holder{{Owner: "u:1", Count: 1, Client: &apiSeven, Since: atThree}},
			Queue:   []mortise.Waiter{{Owner: "v:1", TTL: -1, Since: atThree.Add(time.Second), Kind: "fairlock"}},
		},
		`{"name":"l","kind":"fairlock","locked":true,"ttl_ms":1000,"holders":[{"owner":"u:1","count":1,` +
			`"client":{"id":"u","host":"api-7","pid":4121,"app":"app","started":"2026-11-24T03:00:00Z"},"since":"2026-11-24T03:00:00Z","held_ms":1500}],` +
			`"queue":[{"position":1,"owner":"v:1","ttl_ms":-1,"since":"2026-11-24T03:00:01Z","kind":"fairlock","waited_ms":500}],"now":"2026-11-24T03:00:01.5Z"}`,
	},
	{mortise.Holder{Owner: "u:1", Count: 1}, `{"owner":"u:1","count":1}`},
	{mortise.Waiter{Owner: "u:1", TTL: 2 * time.Second}, `{"owner":"u:1","ttl_ms":2000}`},
	{mortise.Permit{ID: "ab", TTL: 2 * time.Second}, `{"id":"ab","ttl_ms":2000}`},
	{mortise.Leader{Value: "v", Owner: "u:1", Term: 3, TTL: 2 * time.Second}, `{"value":"v","owner":"u:1","term":3,"ttl_ms":2000}`},
}

func TestJSONForms(t *testing.T) {
	t.Parallel()
	for _, form := range jsonForms {
		got, err := json.Marshal(form.value)
		if want := strings.ReplaceAll(form.want, "<", `\u003c`); err != nil || string(got) != want {
			t.Errorf("%T: %s, %v, want %s", form.value, got, err, want)
		}
		back := reflect.New(reflect.TypeOf(form.value))
		if err := json.Unmarshal([]byte(form.want), back.Interface()); err != nil || !reflect.DeepEqual(back.Elem().Interface(), form.value) {
			t.Errorf("%s was read as %+v, %v, want %+v", form.want, back.Elem(), err, form.value)
		}
		if err := json.Unmarshal([]byte(`[]`), back.Interface()); err == nil {
			t.Errorf("%T reads a list", form.value)
		}
	}
}
