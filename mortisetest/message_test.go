package mortisetest_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/mortisetest"
)

// Messages of one client get lost, come late, twice, or from nobody.
func TestMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *mortisetest.Server, l *mortisetest.Link) {
		other := s.Link()
		defer other.Close()
		sub, heard := listen(t, l, "a")
		_, others := listen(t, other, "a")
		fates := map[string]mortisetest.Delivery{"lost": {Lost: true}, "late": {Delay: time.Second}, "doubled": {Copies: 1}}
		l.OnMessage(func(channel, payload string) mortisetest.Delivery { return fates[payload] })
		for _, payload := range []string{"lost", "late", "doubled", "x"} {
			s.Publish("a", payload)
			others.want(t, "a:"+payload)
		}
		heard.want(t, "a:doubled", "a:doubled", "a:x")
		time.Sleep(time.Second)
		heard.want(t, "a:late")
		l.Forge("a", "forged")
		l.Forge("b", "forged") // it does not listen
		heard.want(t, "a:forged")
		others.want(t)
		if got := l.Channels(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("channels %q, want a", got)
		}
		s.Publish("a", "late")
		synctest.Wait()
		_ = sub.Close()
		s.Settle()
		heard.want(t) // nothing after Close
		wantHits(t, l.Hits(), map[mortisetest.Hit]int{
			mortisetest.MessageLost: 1, mortisetest.MessageLate: 2, mortisetest.MessageDoubled: 1, mortisetest.MessageForged: 1,
		})
	})
}
