package driver

import (
	"crypto/sha1"
	"encoding/hex"
)

// Script is a Lua script with its SHA-1 digest, under which Redis caches it.
type Script struct {
	name, source, sha string
}

// NewScript returns the script with the given source. The name appears in
// errors and traces.
func NewScript(name, source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// Name returns the name the script was given.
func (s *Script) Name() string { return s.name }

// Source returns the Lua text.
func (s *Script) Source() string { return s.source }

// SHA returns the digest for EVALSHA, 40 lower-case hex digits.
func (s *Script) SHA() string { return s.sha }
