package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// dialer returns a function that opens connections for the client. They end with life: the client
// has no way to give up a connection that it is just opening. It resolves a name each time.
func dialer(life context.Context, unix bool, lines *lines) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
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
		return lines.add(&mortal{Conn: conn, stop: stop}), nil
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
	stop  func() bool
	read  atomic.Bool // for the first time
	lines *lines
	since time.Time // it has been open
}

// Read implements net.Conn. A server that turns a client away says why, and closes the connection
// before it has read anything. The client takes that for the reply to its first command, or sees
// only the end, so Read makes it an error of the connection.
func (m *mortal) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if !m.read.Swap(true) {
		if away := turnedAway(p[:n]); away != nil {
			return 0, away
		}
	}
	return n, err
}

// Write implements net.Conn. A connection that was closed by then may still have what the server has said.
func (m *mortal) Write(p []byte) (int, error) {
	n, err := m.Conn.Write(p)
	if err == nil || m.read.Load() {
		return n, err
	}
	var said [256]byte
	_ = m.Conn.SetReadDeadline(time.Now().Add(time.Second))
	if k, _ := m.Conn.Read(said[:]); k > 0 {
		err = cmp.Or(turnedAway(said[:k]), err)
	}
	return n, err
}

// turnedAway returns the error for what a server has said at first, or nil.
func turnedAway(said []byte) error {
	for _, away := range []string{"-ERR max number of clients", "-DENIED "} {
		if line, _, _ := strings.Cut(string(said), "\r"); strings.HasPrefix(line, away) {
			return turnedAwayError(line[1:])
		}
	}
	return nil
}

// turnedAwayError is what a server says that closes the connection at once.
type turnedAwayError string

func (e turnedAwayError) Error() string { return string(e) }

func (m *mortal) Close() error {
	m.stop()
	m.lines.remove(m)
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
