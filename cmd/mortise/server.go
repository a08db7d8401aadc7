package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/memredis"
)

const serverLong = `Runs an embedded Redis until it is interrupted, for trying mortise without a Redis
server. It is not for production: it keeps everything in memory, forgets it at the
end, and is much slower than Redis. It has no password, so it listens on loopback
addresses only.

Exit codes:
   0  ended by SIGINT or SIGTERM
  64  wrong usage, or an address that other machines can reach
  69  cannot listen on the address, because another server does
  74  the output cannot be written`

func serverCommand(a *app) *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run an embedded Redis, for trying things",
		Long:  serverLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.redis != "" {
				return usageError("To choose its address: --addr HOST:PORT.", "mortise server is a Redis of its own and takes no --redis")
			}
			ctx, stop := a.untilSignal(cmd.Context())
			defer stop()
			return a.serve(ctx, addr)
		},
	}
	a.withoutRedis(cmd)
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:6379", "loopback `host:port` to listen on; port 0 means any free port")
	return cmd
}

// serve runs the embedded Redis until ctx ends, which is not an error.
func (a *app) serve(ctx context.Context, addr string) error {
	tcp, err := loopback(addr)
	if err != nil {
		return err
	}
	server, err := memredis.Listen(tcp.String())
	if err != nil {
		return listenError(tcp.String(), err)
	}
	defer server.Close()
	fmt.Fprintf(a.stdout, "An embedded Redis listens on %s; it is for trying things, not for production.\n", server.Addr())
	fmt.Fprintf(a.stdout, "Try it from another terminal, or from two at once:\n\n")
	fmt.Fprintf(a.stdout, "  mortise --redis redis://%s run demo -- sleep 5\n\n", server.Addr())
	fmt.Fprintf(a.stdout, "Ctrl-C ends it, and deletes everything in it.\n")
	<-ctx.Done()
	if err := a.stdout.failure(); err != nil {
		return err
	}
	a.say("the embedded Redis has ended (%v)", context.Cause(ctx))
	return nil
}

// loopback resolves addr, and refuses addresses that other machines can reach.
func loopback(addr string) (*net.TCPAddr, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, usageError("Write it as 127.0.0.1:6379, or 127.0.0.1:0 for any free port.", "--addr %s is not an address to listen on: %w", addr, err)
	}
	if !tcp.IP.IsLoopback() {
		return nil, usageError("Use 127.0.0.1 or [::1]. For several machines, use a real Redis or Valkey.",
			"--addr %s is not a loopback address; the embedded Redis has no password, so it serves only this machine", addr)
	}
	return tcp, nil
}

// listenError explains why the server cannot listen on addr.
func listenError(addr string, err error) error {
	e := &exitError{code: exitUnreachable, err: fmt.Errorf("cannot listen on %s: %w", addr, err)}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.hint = fmt.Sprintf("Another server listens there. If it is a Redis, use it: mortise --redis redis://%s run NAME -- CMD\n"+
			"Otherwise choose another port: mortise server --addr 127.0.0.1:0", addr)
	case errors.Is(err, syscall.EACCES):
		e.hint = "Choose a port above 1023: mortise server --addr 127.0.0.1:0"
	}
	return e
}
