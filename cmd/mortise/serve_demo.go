package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/fleet"
	"github.com/mortise-go/mortise/memredis"
)

// startFleet starts an embedded Redis with lively clients. End ends both.
func startFleet(ctx context.Context) (*servedRedis, error) {
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		return nil, listenError("127.0.0.1:0", err)
	}
	f, err := fleet.Start(ctx, func(context.Context) (driver.Driver, error) { return server.Driver(), nil }, nil)
	if err != nil {
		server.Close()
		return nil, err
	}
	end := func() {
		f.Stop()
		server.Close()
	}
	at := "redis://" + server.Addr()
	return &servedRedis{driver: server.Driver(), end: end, url: at, full: at}, nil
}

// serveDemo is mortise demo --serve.
func (a *app) serveDemo(cmd *cobra.Command) error {
	for _, other := range []string{"workers", "duration", "no-lock"} {
		if cmd.Flags().Changed(other) {
			return usageError("", "--serve and --%s exclude each other", other)
		}
	}
	ctx, stop := a.untilSignal(cmd.Context())
	defer stop()
	f := defaultServe
	f.demo = true
	return a.showPages(ctx, &f)
}
