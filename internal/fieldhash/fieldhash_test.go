package fieldhash

import (
	"strings"
	"testing"
)

// The hashes of the UTF-8 texts by org.redisson.misc.Hash of Redisson 4.7.0. The interop tests
// compare many more with a running Redisson.
func TestOfIsRedissonsHash(t *testing.T) {
	alphabet := strings.Repeat("abcdefghijklmnopqrstuvwxyz", 39)[:1000]
	for value, want := range map[string]string{
		"":                                  "t6rZwibGo2uy1OSmNVe8pg",
		"a":                                 "qwvAS12pR0CgRitaypEjUw",
		"b":                                 "Q5CdP+xmkHdTGWYr64Lw6A",
		"order:42":                          "qCj9C1XTG9WEby0hj4f/Cw",
		"ümläut 名":                          "AlGGLxfq5VfINZBf323kxw",
		"🙂":                                 "tV6qbElNy6TBoEWx632F4Q",
		"a b":                               "Weg3nPCbOkKyp+AO7xNzQw",
		"0123456789abcdef0123456789abcdef":  "08hr0B8iaf3PoSsWAS8sWA",
		"0123456789abcdef0123456789abcdef0": "bJFqmqUcs2MICdEOv9KOyw",
		"\x00":                              "ntmkVtE20ANYrJ9J+qTLcA",
		"{x}":                               "I0jocSDKm7RrJUH7kl5ruQ",
		"line\nbreak":                       "k4ApKbIywK6sTsipU7WbUQ",
		alphabet:                            "m8/0kcOTldL4TWms1M+phg",
	} {
		if got := Of(value); got != want {
			t.Errorf("Of(%.40q) = %s, want %s", value, got, want)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add("order:42")
	f.Fuzz(func(t *testing.T, value string) {
		if got := Of(value); len(got) != Len || got != Of(value) {
			t.Errorf("Of(%q) = %q", value, got)
		}
	})
}
