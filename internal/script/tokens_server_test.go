//go:build server

package script_test

import (
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// A server that counts uses does not know when the last one was.
func TestTokensWhereUsesAreCounted(t *testing.T) {
	w := realWorld(t, redistest.Single(t, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lfu"))
	w.must(t, "SET", keyspace.Token(job), "7")
	r := script.InspectTokens(t.Context(), w, aDay, anHour, []string{job})[0]
	if driver.ClassOf(r.Err) != driver.Unfit || !strings.Contains(r.Err.Error(), "maxmemory-policy") {
		t.Errorf("it is %+v, %v, want an error that names the policy", r.Tokens, r.Err)
	}
	w.wantTTL(t, keyspace.Token(job), none)
}
