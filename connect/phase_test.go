package connect

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/mortise-go/mortise"
)

// Who gives up during a TLS handshake is told so: a port without TLS waits for more.
func TestPhaseOfAnInterruption(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for scheme, want := range map[string]Phase{"rediss": PhaseTLS, "redis": PhaseConnect} {
		t.Run(scheme, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			served := make(chan struct{})
			go func() {
				defer close(served)
				conn, err := l.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1))
				cancel()
				_, _ = conn.Read(make([]byte, 4096)) // until the client has gone
			}()
			_, err := Open(ctx, scheme+"://"+l.Addr().String())
			var phase *PhaseError
			if !errors.As(err, &phase) || phase.Phase != want || !errors.Is(err, context.Canceled) || !errors.Is(err, mortise.ErrUnreachable) {
				t.Errorf("Open returns %v, want an interruption in the phase %q", err, want)
			}
			<-served
		})
	}
}
