package fieldhash

import (
	"encoding/hex"
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
		if got := Of([]byte(value)); got != want {
			t.Errorf("Of(%.40q) = %s, want %s", value, got, want)
		}
	}
}

// What Kryo5Codec of Redisson 3.25.2 and 4.7.0 makes of a string. The interop tests compare the fields of many more.
func TestTextIsKryos(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for text, want := range map[string]string{
		"": "0381", "a": "038261", "ab": "0361e2", "order:42": "036f726465723a34b2", "\x7f\x7f": "037fff", "a\x00b": "036100e2", "\x00": "038200",
		"ümläut 名": "0389c3bc6d6cc3a4757420e5908d", "🙂": "0383eda0bdedb982", "\u0080": "0382c280",
		x(32): "03" + strings.Repeat("78", 31) + "f8", x(33): "03a2" + strings.Repeat("78", 33),
		x(62): "03bf" + strings.Repeat("78", 62), x(63): "03c001" + strings.Repeat("78", 63), x(64): "03c101" + strings.Repeat("78", 64),
		x(200): "03c903" + strings.Repeat("78", 200), x(5000): "03c94e" + strings.Repeat("78", 5000), strings.Repeat("é", 40): "03a9" + strings.Repeat("c3a9", 40),
		strings.Repeat("名", 3000): "03f92e" + strings.Repeat("e5908d", 3000),
	} {
		if got := hex.EncodeToString(kryo(text)); got != want {
			t.Errorf("Kryo writes %.60s for %.40q, want %.60s", got, text, want)
		}
	}
	if Text("\xff") != Of([]byte{0xff}) || Text("a") == Of([]byte("a")) {
		t.Error("a text is not hashed as its codec writes it, or what is none is not hashed as it is")
	}
}

func FuzzText(f *testing.F) {
	f.Add("order:42")
	f.Fuzz(func(t *testing.T, value string) {
		if got := Text(value); len(got) != Len || got != Text(value) || got == Text(value+"x") {
			t.Errorf("Text(%q) = %q", value, got)
		}
	})
}
