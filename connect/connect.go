// Package connect makes a mortise driver from a URL, for programs that have no
// Redis client of their own, such as the mortise command.
//
//	redis://[[user]:password@]host[:port][/db]
//	rediss://…                                    with TLS
//	valkey://…, valkeys://…                       the same
//	unix://[[user]:password@]/path/to.sock[?db=N]
//	redis-sentinel://[[user]:password@]h1[:port],h2[:port][/db]?master=NAME
//	rediss-sentinel://…
//	redis+cluster://[[user]:password@]h1[:port],h2[:port]
//	rediss+cluster://…
//	mem://                                        an embedded server, see package memredis
//
// The default port is 6379, and 26379 for sentinels. Special characters in a password are
// percent-encoded. A redis:// URL of a node of a cluster works like redis+cluster://.
//
// Options follow after a question mark: client_name is shown by CLIENT LIST and is "mortise" by
// default; master, sentinel_user and sentinel_password are for sentinels; tls_ca is a file with the
// certificates of the authorities to trust instead of the system's; tls_cert and tls_key are files
// with the client's own certificate; tls_server_name is the name that the server's certificate must
// contain; and tls_insecure=true disables its verification.
//
// With TLS the server's certificate is verified, and versions before TLS 1.2 are not accepted.
// Passwords never appear in the errors of this package.
package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/memredis"
)

const (
	dialTimeout = 3 * time.Second
	ioTimeout   = 3 * time.Second // the time after which a silent connection is given up
)

// Open connects to the server that rawURL describes and returns a driver for it, which owns the
// connections. It returns when the server has accepted the connection and the password, when it has
// refused, or when ctx ends; ctx has no meaning later. It does not try again: it fails at once if nothing
// listens there, and after three to five seconds if nothing answers. A client of its driver does try again,
// for mortise.Options.RetryFor.
//
// The error has a class, and matches a sentinel of package mortise: driver.NotSent and
// [mortise.ErrUnreachable] if there was no connection, driver.Denied and [mortise.ErrDenied] for a
// wrong password, driver.Other and [mortise.ErrInvalid] for a wrong URL, or a server that is older
// than Redis 5.0.
func Open(ctx context.Context, rawURL string) (driver.Driver, error) {
	a, err := parse(rawURL)
	if err != nil {
		return nil, invalid(err)
	}
	if a.kind == embedded {
		return openEmbedded(), nil
	}
	option, err := clientOption(a)
	if err != nil {
		return nil, invalid(err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	dialled := new(lines)
	option.DialCtxFn = dialer(life, a.unix, dialled)

	type opened struct {
		client redis.Client
		err    error
	}
	result := make(chan opened, 1)
	go func() {
		client, err := redis.NewClient(option)
		if err == nil && a.kind == cluster && client.Mode() != redis.ClientModeCluster {
			err = errNoCluster
		}
		if err == nil {
			err = checkVersion(life, client)
		}
		if err != nil && client != nil { // some errors come with a client
			client.Close()
		}
		result <- opened{client, err}
	}()
	var r opened
	select {
	case r = <-result:
	case <-ctx.Done():
		end() // interrupts NewClient
		if r = <-result; r.err == nil {
			r.client.Close()
		}
		return nil, failed(a, driver.ContextError(ctx, driver.NotSent), r.err)
	}
	if r.err != nil {
		end()
		return nil, failed(a, late(r.err), r.err)
	}
	d := &connected{Driver: rueidis.Own(r.client), end: end}
	if a.kind == server { // in others the client finds the master
		return &behindOneAddress{d, dialled}, nil
	}
	return d, nil
}

// invalid returns the error for a URL that cannot be opened.
func invalid(err error) error {
	return &driver.Error{Class: driver.Other, Err: &matching{fmt.Errorf("connect: %w", err), mortise.ErrInvalid}}
}

var errNoCluster = errors.New("the server is not a node of a cluster; write redis:// for a single server")

// failed returns the error of Open. It names the hosts, and nothing else of the URL. Below is what the client was interrupted in: the
// end of a context does not say.
func failed(a *address, err, below error) error {
	class, text := driver.NotSent, "" // nothing was sent but the handshake, whatever happened
	var turned turnedAwayError
	if reply, ok := redis.IsRedisErr(err); ok {
		text = reply.Error()
	} else if errors.As(err, &turned) {
		text = string(turned)
	}
	switch {
	case text != "":
		class = driver.ClassifyReply(text)
	case errors.Is(err, errNoCluster), errors.As(err, new(oldServerError)):
		class = driver.Other
	}
	phase := &PhaseError{Phase: phaseOf(class, below), Hosts: a.hosts, Err: err}
	return &driver.Error{Class: class, Err: &matching{phase, sentinelOf(class)}, Reply: text}
}

// clientOption returns the options of the client. A client for locks needs small buffers, one
// connection for each node and no cache, and has to learn soon that a server is gone.
func clientOption(a *address) (redis.ClientOption, error) {
	name := a.options["client_name"]
	if name == "" {
		name = "mortise"
	}
	tlsConfig, err := tlsConfig(a)
	if err != nil {
		return redis.ClientOption{}, err
	}
	option := redis.ClientOption{
		InitAddress: a.hosts,
		Username:    a.user, Password: a.password,
		ClientName: name, SelectDB: a.db,
		TLSConfig:          tlsConfig,
		Dialer:             net.Dialer{Timeout: dialTimeout, KeepAlive: time.Second},
		ConnWriteTimeout:   ioTimeout,
		RingScaleEachConn:  9,
		ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
		PipelineMultiplex: -1,
		DisableCache:      true,
		ForceSingleClient: a.unix || a.kind == server && a.db != 0, // a cluster has only database 0
	}
	option.ClusterOption.MaxMovedRedirections = 16
	if a.kind == sentinel {
		option.Sentinel = redis.SentinelOption{
			MasterSet: a.master,
			Dialer:    option.Dialer, TLSConfig: tlsConfig,
			Username: a.sentinelUser, Password: a.sentinelPassword, ClientName: name,
			TopologyRefreshInterval: 5 * time.Second,
		}
	}
	return option, nil
}

// connected is a driver whose client was made here.
type connected struct {
	*rueidis.Driver
	end context.CancelFunc
}

// Close closes the driver, its client and all connections, also those that are just being opened.
func (c *connected) Close() error {
	c.end()
	return c.Driver.Close()
}

// openEmbedded returns a driver with an embedded server of its own.
func openEmbedded() driver.Driver {
	server := memredis.New()
	return &inMemory{Driver: server.Driver(), server: server}
}

type inMemory struct {
	driver.Driver
	server *memredis.Server
}

// Close closes the driver and ends the server.
func (m *inMemory) Close() error {
	err := m.Driver.Close()
	m.server.Close()
	return err
}

// Scan implements driver.Scanner.
func (m *inMemory) Scan(ctx context.Context, match string, fn func(keys []string) error) error {
	return m.Driver.(driver.Scanner).Scan(ctx, match, fn)
}

// Servers implements driver.Commander.
func (m *inMemory) Servers(ctx context.Context) ([]string, error) {
	return m.Driver.(driver.Commander).Servers(ctx)
}

// Command implements driver.Commander.
func (m *inMemory) Command(ctx context.Context, server string, words ...string) (driver.Value, error) {
	return m.Driver.(driver.Commander).Command(ctx, server, words...)
}
