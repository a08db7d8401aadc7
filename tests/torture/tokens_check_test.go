package torture

import (
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/torture"
)

// What checks tokens is shown ones that rise, and ones that went back.
func TestBackwards(t *testing.T) {
	const ttl = 10 * time.Nanosecond
	at := func(asked, start, came, token int64) *section {
		return &section{asked: asked, start: start, came: came, token: token}
	}
	late := func(asked, came, token int64) *section { return at(asked, 0, came, token) } // not valid any more
	for name, c := range map[string]struct {
		holds  []*section
		faults []span
		want   int
	}{
		"they rise, with gaps":                       {holds: []*section{at(1, 10, 11, 3), at(2, 20, 21, 4), at(3, 30, 31, 9)}},
		"one goes back":                              {holds: []*section{at(1, 10, 11, 5), at(2, 20, 21, 4)}, want: 1},
		"each second one goes back":                  {holds: []*section{at(1, 10, 11, 5), at(2, 20, 21, 4), at(3, 30, 31, 7), at(4, 40, 41, 6)}, want: 2},
		"one comes twice":                            {holds: []*section{at(1, 10, 11, 5), at(2, 20, 21, 5)}, want: 1},
		"the news of an older one are late":          {holds: []*section{at(1, 20, 21, 5), at(2, 10, 25, 4)}},
		"the news of an older one with more":         {holds: []*section{at(1, 20, 21, 5), at(2, 10, 25, 6)}, want: 1},
		"an older one is not valid any more":         {holds: []*section{at(1, 20, 21, 5), late(2, 25, 4)}},
		"one is not valid any more, and asked later": {holds: []*section{at(1, 20, 21, 5), late(22, 45, 4)}, want: 1},
		"later than one that is not valid any more":  {holds: []*section{late(1, 21, 5), at(2, 30, 31, 4)}},
		"asked later than that":                      {holds: []*section{late(1, 21, 5), at(22, 30, 31, 4)}, want: 1},
		"Redis forgot between":                       {holds: []*section{at(1, 10, 11, 5), at(2, 20, 21, 4)}, faults: []span{{15, 16}}},
		"Redis forgot before":                        {holds: []*section{at(1, 40, 41, 5), at(2, 50, 51, 4)}, faults: []span{{15, 30}}, want: 1},
		"Redis forgot later":                         {holds: []*section{at(1, 10, 11, 5), at(2, 20, 21, 4)}, faults: []span{{22, 30}}, want: 1},
		"back after Redis forgot": {
			holds:  []*section{at(1, 10, 11, 50), at(2, 30, 31, 4), at(3, 40, 41, 7), at(4, 50, 51, 6)},
			faults: []span{{12, 13}}, want: 1,
		},
	} {
		if got := backwards(c.holds, c.faults, ttl); len(got) != c.want {
			t.Errorf("%s: %d went back, want %d", name, len(got), c.want)
		}
	}
}

// The witness has a verdict on every token that a client can name.
func TestWitnessOfTokens(t *testing.T) {
	for name, c := range map[string]struct {
		tokens []int64
		want   string
	}{
		"they rise":         {[]int64{1, 2, 7}, ""},
		"none at first":     {[]int64{0}, "client 0 has token 0, which is none"},
		"none, twice":       {[]int64{0, 0}, "client 1 has token 0, which is none"},
		"below none":        {[]int64{-1, 2}, "client 0 has token -1, which is none"},
		"one twice":         {[]int64{3, 3}, "client 1 has token 3, which client 0 had before"},
		"one that was long": {[]int64{3, 4, 3}, "client 2 has token 3, and it went back: client 1 had 4 before"},
		"back":              {[]int64{5, 4, 7, 6}, "client 3 has token 6, and it went back: client 2 had 7 before"},
	} {
		w := newWitness(t, []torture.Load{{Kind: "fenced", Name: "x", Fenced: true}}, time.Second)
		for i, token := range c.tokens {
			version := int64(0)
			for _, op := range []string{torture.Want, torture.Got, torture.Write, torture.End} {
				version = w.hear(torture.Message{Op: op, Client: i, At: torture.Now(), Token: token, Version: version}).Version
			}
		}
		w.tokens()
		if all := strings.Join(w.bad, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s: the witness says %q, want %q", name, all, c.want)
		}
	}
}
