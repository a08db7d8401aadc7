package torture

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/torture"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(torture.Env); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if text := os.Getenv(victimEnv); text != "" {
		fmt.Fprintln(os.Stderr, suffer(text))
		os.Exit(1)
	}
	code := m.Run()
	showTable()
	os.Exit(code)
}

// serve is a client process.
func serve(config string) error {
	var c torture.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	now := goleak.IgnoreCurrent()
	return torture.Run(c, open, func() error {
		// A closed cluster client of rueidis waits out its refreshes, and the grace of some seconds
		// that it gives to connections which it has replaced.
		return soon(time.Minute, func() error { return goleak.Find(now) })
	})
}

// locks is mortise as a subject.
type locks struct {
	*mortise.Client
	others []*mortise.Client // of the other servers, if these are independent
	acks   mortise.Acks
	ends   []func()
}

func open(c torture.Config) (torture.Subject, error) {
	each := []torture.Config{c}
	if c.Topology == "several" {
		each = nil
		for _, a := range c.Addrs {
			one := c
			one.Topology, one.Addrs = "single", []string{a}
			each = append(each, one)
		}
	}
	l := &locks{acks: mortise.Acks(c.Acks)}
	var clients []*mortise.Client
	for _, c := range each {
		d, end, err := dial(c)
		if err != nil {
			for _, end := range l.ends {
				end()
			}
			return nil, err
		}
		clients, l.ends = append(clients, mortise.New(d, &mortise.Options{TTL: c.TTL})), append(l.ends, end)
	}
	l.Client, l.others = clients[0], clients[1:]
	return l, nil
}

func (l *locks) Close() (err error) {
	for _, c := range append([]*mortise.Client{l.Client}, l.others...) {
		err = errors.Join(err, c.Close())
	}
	for _, end := range l.ends {
		end()
	}
	return err
}

// dial opens the driver of a client.
func dial(c torture.Config) (d driver.Driver, end func(), err error) {
	via := func(ctx context.Context, addr string) (net.Conn, error) {
		if other := c.Via[addr]; other != "" {
			addr = other
		}
		return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	}
	if c.Driver == "rueidis" {
		o := rueidisclient.ClientOption{
			InitAddress: c.Addrs, ConnWriteTimeout: 3 * time.Second, DisableCache: true, ForceSingleClient: c.Topology == "single",
			RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
			DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return via(ctx, addr)
			},
		}
		if c.Topology == "sentinel" {
			o.Sentinel = rueidisclient.SentinelOption{MasterSet: redistest.SentinelName, TopologyRefreshInterval: time.Second}
		}
		rc, err := rueidisclient.NewClient(o)
		if err != nil {
			return nil, nil, err
		}
		return rueidis.Wrap(rc), rc.Close, nil
	}
	dialer := func(ctx context.Context, _, addr string) (net.Conn, error) { return via(ctx, addr) }
	var rdb goredis.Client
	switch c.Topology {
	case "single":
		rdb = redis.NewClient(&redis.Options{Addr: c.Addrs[0], Dialer: dialer, DialerRetries: 1})
	case "sentinel":
		rdb = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.SentinelName, SentinelAddrs: c.Addrs, Dialer: dialer, DialerRetries: 1})
	case "cluster":
		rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs, Dialer: dialer, DialerRetries: 1, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second})
	}
	return goredis.Wrap(rdb), func() { _ = rdb.(interface{ Close() error }).Close() }, nil
}

func (l *locks) Take(ctx context.Context, load torture.Load, limit time.Duration) (torture.Held, context.Context, error) {
	o := mortise.LockOptions{Wait: limit, Durability: mortise.Durability{Acks: l.acks}}
	var hold *mortise.Hold
	var err error
	switch load.Kind {
	case "lock":
		hold, ctx, err = l.Lock(load.Name).With(o).Lock(ctx)
	case "fenced":
		hold, ctx, err = l.FencedLock(load.Name).With(o).Lock(ctx)
	case "spin":
		hold, ctx, err = l.SpinLock(load.Name).With(o).Lock(ctx)
	case "fair":
		hold, ctx, err = l.FairLock(load.Name).With(o).Lock(ctx)
	case "read":
		hold, ctx, err = l.RWLock(load.Name).Read().With(o).Lock(ctx)
	case "write":
		hold, ctx, err = l.RWLock(load.Name).Write().With(o).Lock(ctx)
	case "group":
		hold, ctx, err = l.GroupLock(load.Name, load.Names...).With(o).Lock(ctx)
	case "multi":
		var all []mortise.Locker
		for _, n := range load.Names {
			all = append(all, l.Lock(n))
		}
		hold, ctx, err = mortise.NewMultiLock(all...).With(o).Lock(ctx)
	case "permit":
		hold, ctx, err = l.permit(ctx, load, o)
	case "redlock":
		hold, ctx, err = mortise.NewRedlock(load.Name, append([]*mortise.Client{l.Client}, l.others...)...).With(o).Lock(ctx)
	case "election":
		return l.campaign(ctx, load, o)
	default:
		return l.meet(ctx, load, mortise.WaitOptions{Wait: limit})
	}
	if err != nil {
		return nil, ctx, err
	}
	return hold, ctx, nil
}

func (l *locks) permit(ctx context.Context, load torture.Load, o mortise.LockOptions) (*mortise.Hold, context.Context, error) {
	s := l.PermitSemaphore(load.Name).With(mortise.PermitOptions{Wait: o.Wait, Durability: o.Durability})
	if _, err := s.TrySetPermits(ctx, load.Units); err != nil {
		return nil, ctx, err
	}
	return s.Acquire(ctx)
}

// term is a term of an election as what is held.
type term struct{ *mortise.Term }

func (t term) Unlock() error { return t.Resign() }

func (l *locks) campaign(ctx context.Context, load torture.Load, o mortise.LockOptions) (torture.Held, context.Context, error) {
	t, lctx, err := l.Election(load.Name).With(o).Campaign(ctx, "torture")
	if err != nil {
		return nil, ctx, err
	}
	return term{t}, lctx, nil
}

func (l *locks) Lost(err error) bool { return errors.Is(err, mortise.ErrLost) }

// classes sorts errors; the first that matches counts.
var classes = []struct {
	err  error
	name string
}{
	{mortise.ErrLost, "lost"}, {mortise.ErrUnknownOutcome, "unknown"}, {mortise.ErrFenceRegressed, "regressed"},
	{mortise.ErrDenied, "denied"}, {mortise.ErrNotDurable, "notdurable"},
	{mortise.ErrWrongKind, "bad: wrong kind"}, {mortise.ErrInvalid, "bad: invalid"}, {mortise.ErrReentry, "bad: reentry"},
	{mortise.ErrReleased, "bad: released"}, {mortise.ErrClosed, "bad: closed"},
	{mortise.ErrBroken, "broken"}, {mortise.ErrMissing, "missing"},
	{context.Canceled, "context"}, {mortise.ErrNoQuorum, "unreachable"}, {mortise.ErrLocked, "locked"}, {mortise.ErrNoPermits, "permits"}, {mortise.ErrUnreachable, "unreachable"},
}

func (l *locks) Class(err error) string {
	if err == nil {
		return ""
	}
	var broken *mortise.BrokenError
	if errors.As(err, &broken) && broken.Reason == mortise.BrokenLost {
		return "vanished"
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "bad: of no class"
}
