package doctor_test

import (
	"strings"
	"testing"

	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

// deaf is a driver whose messages are lost; with mute set, nor are subscriptions confirmed.
type deaf struct {
	driver.Driver
	mute bool
}

func (d deaf) Subscriber(sink driver.Sink) driver.Subscriber {
	return d.Driver.Subscriber(deafSink{sink, d.mute})
}

type deafSink struct {
	driver.Sink
	mute bool
}

func (deafSink) Message(string, string) {}

func (s deafSink) Subscribed(channel string) {
	if !s.mute {
		s.Sink.Subscribed(channel)
	}
}

func TestMessagesThatAreLost(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		for mute, words := range map[bool]string{false: "a message that was published did not come within ", true: "does not confirm a subscription within "} {
			d := s.Driver()
			r, err := doctor.Examine(t.Context(), deaf{d, mute}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if f := one(t, r, "messages"); f.Severity != doctor.Critical || !strings.Contains(f.Found, words) || f.Do == "" || r.Worst != doctor.Critical {
				t.Errorf("%+v, worst %s", f, r.Worst)
			}
			_ = d.Close()
		}
	})
}
