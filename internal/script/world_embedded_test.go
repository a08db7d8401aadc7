//go:build !server

package script_test

import (
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// Without the build tag server, tests run on the embedded Redis only.

func single(*testing.T, ...string) *redistest.Server { return nil }

func onServer(*testing.T, string, *redistest.Server, func(t *testing.T, w *world)) {}

// publishers are the commands with which messages are sent: the embedded Redis
// has no sharded ones.
var publishers = []string{"publish"}
