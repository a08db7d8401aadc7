// Package fieldhash computes the names of the fields of a lock group. Redisson hashes each
// value with HighwayHash, so this imports the only package outside the standard library that
// the library itself needs.
package fieldhash

import (
	"encoding/base64"
	"encoding/binary"

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

// Of returns the field of a value: its 128-bit HighwayHash, the two words in big-endian order
// as Java writes them, in base64 without padding.
func Of(value string) string {
	sum := highwayhash.Sum128([]byte(value), key)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], binary.LittleEndian.Uint64(sum[:8]))
	binary.BigEndian.PutUint64(b[8:], binary.LittleEndian.Uint64(sum[8:]))
	return base64.RawStdEncoding.EncodeToString(b[:])
}
