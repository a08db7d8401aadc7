//go:build proof

package main

import (
	"errors"
	"os"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// awaitHeld waits until the lock is held.
func awaitHeld(t *testing.T, server *redistest.Server, name string) {
	t.Helper()
	redistest.Eventually(t, name+" is held", func() error {
		if server.Int(t, "EXISTS", name) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
}

// awaitAskable waits until a holder listens for requests to release its lock: it subscribes to nothing else after that.
func awaitAskable(t *testing.T, server *redistest.Server) {
	t.Helper()
	redistest.Eventually(t, "the holder can be asked", func() error {
		if len(server.Must(t, "PUBSUB", "CHANNELS", "mortise:ask:*").([]any)) == 0 {
			return errors.New("it does not listen")
		}
		return nil
	})
}

func wantFree(t *testing.T, server *redistest.Server, name string) {
	t.Helper()
	if server.Int(t, "EXISTS", name) != 0 {
		t.Errorf("the lock %s is held, want free", name)
	}
}

// heldError reports an error as long as the lock is held.
func heldError(t *testing.T, server *redistest.Server, name string) error {
	t.Helper()
	if server.Int(t, "EXISTS", name) == 1 {
		return errors.New("it is held")
	}
	return nil
}

// touch makes a file, on which a command waits.
func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
