package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// dialer returns a function that opens connections for the client. They end with life: the client
// has no way to give up a connection that it is just opening.
func dialer(life context.Context, unix bool) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	network := "tcp"
	if unix {
		network = "unix"
	}
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		if d.Timeout > 0 { // for the handshake too
			ctx, cancel = context.WithTimeout(ctx, d.Timeout)
			defer cancel()
		}
		conn, err := d.DialContext(ctx, network, addr)
		if err == nil {
			conn, err = secured(ctx, silent(conn), addr, config)
		}
		if err != nil {
			return nil, err
		}
		// The connection is given up, so an error of Close does not matter.
		stop := context.AfterFunc(life, func() { _ = conn.Close() })
		return &mortal{Conn: conn, stop: stop}, nil
	}
}

// secured returns conn with TLS, unless config is nil.
func secured(ctx context.Context, conn net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return conn, nil
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, handshakeError{err}
	}
	return secure, nil
}

// mortal is a connection that ends with the life of its driver.
type mortal struct {
	net.Conn
	stop func() bool
	read bool // for the first time; one goroutine at a time reads
}

// Read implements net.Conn. A server that turns a client away says why, and closes the connection
// before it has read anything. The client takes that for the reply to its first command, or sees
// only the end, so Read makes it an error of the connection.
func (m *mortal) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if !m.read {
		m.read = true
		for _, away := range []string{"-ERR max number of clients", "-DENIED "} {
			if line, _, _ := strings.Cut(string(p[:n]), "\r"); strings.HasPrefix(line, away) {
				return 0, turnedAwayError(line[1:])
			}
		}
	}
	return n, err
}

// turnedAwayError is what a server says that closes the connection at once.
type turnedAwayError string

func (e turnedAwayError) Error() string { return string(e) }

func (m *mortal) Close() error {
	m.stop()
	return m.Conn.Close()
}

// tlsConfig returns nil without TLS.
func tlsConfig(a *address) (*tls.Config, error) {
	if !a.tls {
		return nil, nil
	}
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         a.options["tls_server_name"], // the host's if empty
		InsecureSkipVerify: a.options["tls_insecure"] == "true",
	}
	if file := a.options["tls_ca"]; file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the authorities to trust: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("the file of tls_ca contains no certificate")
		}
	}
	if file := a.options["tls_cert"]; file != "" {
		pair, err := tls.LoadX509KeyPair(file, a.options["tls_key"])
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
