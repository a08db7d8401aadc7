//go:build server

package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The fleet does on a real server what it does on the embedded one. What it leaves there has an end.
func TestFleetOnARealServer(t *testing.T) {
	server := redistest.Single(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f, err := Start(ctx, func(ctx context.Context) (driver.Driver, error) { return connect.Open(ctx, "redis://"+server.Addr()) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Stop()
	for _, scene := range Scenes() {
		if scene == Silent { // takes half a minute; the virtual time of the other tests shows it
			continue
		}
		if err := f.Scene(ctx, scene); err != nil {
			t.Error(err)
		}
	}
	f.Stop()
	if err := f.Err(); err != nil {
		t.Errorf("the fleet met with %v", err)
	}
	endless := server.Must(t, "EVAL", `
		local left = {}
		for _, key in ipairs(redis.call('keys', '*')) do
			if redis.call('pttl', key) < 0 or redis.call('pttl', key) > 600000 then table.insert(left, key) end
		end
		return table.concat(left, ' ')`, "0")
	if endless != "" {
		t.Errorf("Redis keeps %v", endless)
	}
}
