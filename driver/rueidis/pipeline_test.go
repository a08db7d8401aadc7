package rueidis

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
)

func TestPatience(t *testing.T) {
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		want bool
	}{
		"without an end": {context.Background(), true},
		"cancellable":    {cancellable, false},
		"soon":           {driver.Until(time.Now().Add(replyLimit)), false},
		"late":           {driver.Until(time.Now().Add(time.Hour)), true},
	} {
		if _, got := patient(tt.ctx); got != tt.want {
			t.Errorf("%s: patient = %v", name, got)
		}
	}
}
