package record

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// A body that is too long to be read is not stored: what came first stays.
func TestTextIsShortEnoughToBeRead(t *testing.T) {
	b := Body{Host: "api-7", PID: 4121, HoldCount: Most, WaitCount: Most}
	long := strings.Repeat("<", maxName)
	for i := range Most {
		b.Holds = append(b.Holds, Hold{Name: long, Owner: "o", Since: int64(i) + 1})
		b.Waits = append(b.Waits, Wait{Name: long, Serial: uint64(i)})
	}
	text := b.Text()
	got, ok := Parse(text)
	if !ok || len(text) > MaxBody || got.Host != "api-7" || got.HoldCount != Most || got.WaitCount != Most {
		t.Fatalf("%d bytes, %v, %+v, want what can be read", len(text), ok, got)
	}
	if len(got.Holds) < 8 || len(got.Holds) != len(got.Waits) || got.Holds[0].Since != 1 || len(b.Holds) != Most {
		t.Errorf("%d holds, %d waits, want some of both", len(got.Holds), len(got.Waits))
	}
}

func TestParseOfWhatIsTooLong(t *testing.T) {
	if _, ok := Parse(`{"host":"a","x":"` + strings.Repeat("x", MaxBody) + `"}`); ok {
		t.Error("a body that is too long was read")
	}
	entry := func(n int) string { return `{"owner":"a","by":"b","x":"` + strings.Repeat("x", n) + `"}` }
	if _, ok := ParseAcquisition(entry(maxEntry)); ok {
		t.Error("an entry that is too long was read")
	}
	if _, ok := ParseRequest(entry(maxEntry)); ok {
		t.Error("a request that is too long was read")
	}
	if a, ok := ParseAcquisition(entry(10)); !ok || a.Owner != "a" {
		t.Errorf("read %+v, %v", a, ok)
	}
	if r, ok := ParseRequest(entry(10)); !ok || r.By != "b" {
		t.Errorf("read %+v, %v", r, ok)
	}
}

// A text is cut between runes, and to valid ones.
func TestCut(t *testing.T) {
	for _, test := range []struct {
		text string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aü", 2, "a"}, {"ü", 1, ""}, {"名前", 5, "名"}, {"", 0, ""}} {
		if got := cut(test.text, test.n); got != test.want {
			t.Errorf("cut(%q, %d) = %q, want %q", test.text, test.n, got, test.want)
		}
	}
	b := Body{Host: "a\xff" + strings.Repeat("ü", 200)}
	b.Clean()
	if len(b.Host) > maxText || !utf8.ValidString(b.Host) || !strings.HasPrefix(b.Host, "a?ü") {
		t.Errorf("the host is %q, want it to be valid, and no longer than %d", b.Host, maxText)
	}
}

// A request that is sent can be read, whatever is in it.
func TestRequestIsShortEnoughToBeRead(t *testing.T) {
	r := Request{By: strings.Repeat("\x01", 600), Reason: strings.Repeat("<", 600)}
	got, ok := ParseRequest(r.Text())
	if !ok || got.By != r.By[:maxText] || got.Reason != r.Reason[:maxText] {
		t.Errorf("read %d and %d bytes, %v", len(got.By), len(got.Reason), ok)
	}
}

var bodies = []string{
	`{"host":"api-7","pid":4121,"app":"orders","version":"1.2","started":1700000000000,"extra":{"zone":"a"},"mortise":"1"}`,
	`{"host":"h","holds":[{"name":"job","kind":"Lock","owner":"a:1","since":5,"token":7,"link":"00-1-2-01"}],"hold_count":70}`,
	`{"waits":[{"name":"job","kind":"FairLock","owner":"a:2","since":5,"serial":9,"for":"b:1","under":[{"name":"x","owner":"a:3"}],"fails":true}]}`,
	`{"hold_count":-1,"wait_count":9223372036854775807,"holds":[],"extra":{}}`, `{"extra":{"":"` + strings.Repeat("x", MaxExtra+1) + `","a":"b"}}`,
	`null`, `[]`, `{"holds":null,"waits":[null,{}]}`, `{"HOST":"a","host":"b"}`, `{"host":"\ud800\u0000<>` + "\xff" + `"}`, `{"pid":1e3}`, ``,
	`{"holds":[` + strings.Repeat(`{},`, Most) + `{}]}`, `{"host":"` + strings.Repeat("ü", maxText) + `"}`, strings.Repeat(`{"extra":`, 100),
}

// Whatever lies in a record is read without harm: within the limits, and as the same thing when it is
// written again.
func FuzzParse(f *testing.F) {
	for _, body := range bodies {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, ok := Parse(text)
		if !ok {
			if !reflect.DeepEqual(b, Body{}) {
				t.Errorf("something came from what is no body: %+v", b)
			}
			return
		}
		wantLimited(t, &b)
		again := b.Text()
		if len(again) > MaxBody {
			t.Errorf("what was read has %d bytes when it is written", len(again))
		}
		whole, _ := json.Marshal(b)
		if len(whole) > MaxBody {
			return // part of it is left out
		}
		got, ok := Parse(again)
		if !ok || got.Text() != again {
			t.Errorf("%q became %q", again, got.Text())
		}
	})
}

// wantLimited checks each limit of a body.
func wantLimited(t *testing.T, b *Body) {
	t.Helper()
	short := func(text string, most int) {
		t.Helper()
		if len(text) > most || !utf8.ValidString(text) {
			t.Errorf("a text of %d bytes, want valid UTF-8 of %d at most: %.100q", len(text), most, text)
		}
	}
	short(b.Host+b.App+b.Version+b.Mortise, 4*maxText)
	size := 0
	for key, value := range b.Extra {
		size += len(key) + len(value)
	}
	if len(b.Extra) > maxExtra || size > MaxExtra || len(b.Holds) > Most || len(b.Waits) > Most {
		t.Errorf("%d extra entries of %d bytes, %d holds, %d waits", len(b.Extra), size, len(b.Holds), len(b.Waits))
	}
	if b.HoldCount < len(b.Holds) || b.WaitCount < len(b.Waits) {
		t.Errorf("%d of %d holds, %d of %d waits", len(b.Holds), b.HoldCount, len(b.Waits), b.WaitCount)
	}
	for _, h := range b.Holds {
		short(h.Name, maxName)
		short(h.Kind, maxText)
		short(h.Owner, maxOwner)
		short(h.Link, maxLink)
	}
	for _, w := range b.Waits {
		short(w.Name, maxName)
		short(w.Kind, maxText)
		short(w.Owner, maxOwner)
		short(w.For, maxOwner)
		if len(w.Under) > Most {
			t.Errorf("a wait is under %d leases", len(w.Under))
		}
		for _, u := range w.Under {
			short(u.Name, maxName)
			short(u.Owner, maxOwner)
		}
	}
}

// Whatever lies in a history, or among the requests, is read without harm.
func FuzzParseEntries(f *testing.F) {
	f.Add(`{"kind":"Lock","owner":"a:1","host":"h","pid":7,"app":"x","token":3,"how":"waited","waited_us":5,"held_us":6,"end":"released"}`)
	f.Add(`{"owner":"a:1","waited_us":-9223372036854775808,"held_us":-1}`)
	f.Add(`{"by":"api-7 pid 4121","reason":"deploy"}`)
	f.Add(`{"by":"` + strings.Repeat("ü", maxText) + `","reason":"\u001b[2J\ud800"}`)
	for _, body := range bodies {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wantAcquisition(t, text)
		wantRequest(t, text)
	})
}

func wantAcquisition(t *testing.T, text string) {
	t.Helper()
	a, ok := ParseAcquisition(text)
	if !ok {
		if a != (Acquisition{}) {
			t.Errorf("something came from what is no entry: %+v", a)
		}
		return
	}
	if a.Owner == "" || a.Waited < 0 || a.Held < 0 || len(a.Owner) > maxOwner || max(len(a.Kind), len(a.Host), len(a.App), len(a.How), len(a.End)) > maxText {
		t.Errorf("read %+v", a)
	}
	if again := a.Text(); len(again) <= maxEntry {
		if got, ok := ParseAcquisition(again); !ok || got != a {
			t.Errorf("%q became %+v", again, got)
		}
	}
}

func wantRequest(t *testing.T, text string) {
	t.Helper()
	r, ok := ParseRequest(text)
	if !ok {
		if r != (Request{}) {
			t.Errorf("something came from what is no request: %+v", r)
		}
		return
	}
	if len(r.By) > maxText || len(r.Reason) > maxText {
		t.Errorf("read %+v", r)
	}
	if got, ok := ParseRequest(r.Text()); !ok || got != r {
		t.Errorf("%q became %+v", r.Text(), got)
	}
}
