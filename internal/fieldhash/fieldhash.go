// Package fieldhash computes the names of the fields of a lock group. Redisson hashes each
// value with HighwayHash, so this imports the only package outside the standard library that
// the library itself needs.
package fieldhash

import (
	"encoding/base64"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/minio/highwayhash"
)

// Len is the length of every field.
const Len = 22

// key is Redisson's key (org.redisson.misc.Hash).
var key = func() []byte {
	var k []byte
	for _, word := range []uint64{0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95} {
		k = binary.LittleEndian.AppendUint64(k, word)
	}
	return k
}()

// Text returns the field of a text, as Redisson writes it with its default codec, Kryo5Codec. What is no UTF-8 is no text
// in Java: its bytes are hashed as they are.
func Text(text string) string {
	if !utf8.ValidString(text) {
		return Of([]byte(text))
	}
	return Of(kryo(text))
}

// kryo returns what Kryo 5 writes for a string: the number of its class, then two to 32 characters of ASCII with a mark on the
// last one, or the length and the characters. It counts and writes UTF-16, each half of a surrogate pair in three bytes.
func kryo(text string) []byte {
	const class, more, marked = 3, 0x40, 0x80
	b := []byte{class}
	units := utf16.Encode([]rune(text))
	if n := len(units); n == len(text) && n > 1 && n <= 32 {
		b = append(b, text...)
		b[n] |= marked
		return b
	}
	length := uint64(len(units) + 1)
	if length < more {
		b = append(b, marked|byte(length))
	} else {
		b = append(b, marked|more|byte(length&(more-1)))
		b = binary.AppendUvarint(b, length>>6)
	}
	for _, u := range units {
		switch {
		case u < 0x80:
			b = append(b, byte(u))
		case u < 0x800:
			b = append(b, 0xc0|byte(u>>6), 0x80|byte(u&0x3f))
		default:
			b = append(b, 0xe0|byte(u>>12), 0x80|byte(u>>6&0x3f), 0x80|byte(u&0x3f))
		}
	}
	return b
}

// Of returns the field of what a codec of Redisson's makes of a value: its 128-bit HighwayHash, the two words in big-endian
// order as Java writes them, in base64 without padding.
func Of(value []byte) string {
	sum := highwayhash.Sum128(value, key)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], binary.LittleEndian.Uint64(sum[:8]))
	binary.BigEndian.PutUint64(b[8:], binary.LittleEndian.Uint64(sum[8:]))
	return base64.RawStdEncoding.EncodeToString(b[:])
}
