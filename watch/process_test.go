package watch

import (
	"strings"
	"testing"
	"time"
)

// merged returns the last snapshot of a story.
func merged(story ...sight) (last *Snapshot) {
	for _, look := range story {
		last = Merge(last, look.sighting(), func(string) bool { return true })
	}
	return last
}

// text returns the holders of each lock, as a screen shows them.
func text(s *Snapshot) string {
	var parts []string
	for _, l := range s.Locks() {
		for _, h := range l.Holds {
			parts = append(parts, l.Name+" "+h.Party.Text(strings.Clone))
		}
	}
	return strings.Join(parts, ", ")
}

// A screen shows one holder of a lock that has one, and its process although its record does not list the
// hold any more, or is gone.
func TestHoldersOnAScreen(t *testing.T) {
	for name, test := range map[string]struct {
		story []sight
		want  string
	}{
		"a late record": {[]sight{
			see(0, recordOf(idA, holds("job", 1, -500)), recordOf(idB, waits("job", -100))), see(1000, recordOf(idA, holds("job", 1, -500)), recordOf(idB, holds("job", 1, 900))),
		}, "job api-9 pid 4121"},
		"two readers": {[]sight{
			see(0, recordOf(idA, reads("job", 1, -500)), recordOf(idB, reads("job", 1, -100))),
		}, "job api-7 pid 4121, job api-9 pid 4121"},
		"a record that does not list the hold": {[]sight{
			see(0, recordOf(idA)).with(key("job", 0)), see(250, recordOf(idA)).with(key("job", 9000, a)), see(2000, recordOf(idA)).with(key("job", 9000, a)),
		}, "job api-7 pid 4121"},
		"a record that is gone": {[]sight{
			see(0, recordOf(idA)).with(key("job", 0)), see(250).with(key("job", 9000, a)), see(2000).with(key("job", 9000, a)),
		}, "job api-7 pid 4121"},
		"a record that is gone for more than a minute": {[]sight{
			see(0, recordOf(idA)).with(key("job", 0)), see(61_000).with(key("job", 9000, a)), see(63_000).with(key("job", 9000, a)),
		}, "job " + a},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(merged(test.story...)); got != test.want {
				t.Errorf("the holders are %q, want %q", got, test.want)
			}
		})
	}
}

// The process of a client is known for a minute after its record was last read.
func TestProcess(t *testing.T) {
	s := merged(see(0, recordOf(idA)), see(30_000))
	if info, ok := s.Process(a); !ok || info.Host != "api-7" {
		t.Errorf("the process of %s is %+v, %t, want api-7", a, info, ok)
	}
	if _, ok := s.Process("no owner"); ok {
		t.Error("there is a process of no owner")
	}
	if _, ok := merged(see(0, recordOf(idA)), see(int(time.Minute.Milliseconds())+1)).Process(a); ok {
		t.Error("a process is known after more than a minute")
	}
}
