package peer

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

// The minimum that a lock must do: KEYS[1] is the lock, ARGV[1] the owner, ARGV[2] the lease in ms.
// The scripts return 1 on success.
const (
	rawAcquire = `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 else return 0 end`
	rawRelease = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`
)

// The same in the form that Redisson's clients understand; KEYS[2] is the
// channel of its messages.
const (
	redissonAcquire = `if redis.call('hlen', KEYS[1]) > 0 then return 0 end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return 1`
	redissonRelease = `if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('publish', KEYS[2], 0)
return 1`
)

var rawRueidis = &System{
	Name:     "raw/rueidis",
	Module:   "github.com/redis/rueidis",
	Settings: "EVALSHA of SET NX PX, EVALSHA of GET and DEL; it cannot wait",
	Limit:    true,
	Open:     openRaw(rawAcquire, rawRelease, false),
}

var rawRedisson = &System{
	Name:     "raw/Redisson's format",
	Module:   "github.com/redis/rueidis",
	Settings: "rueidis; EVALSHA of HLEN, HSET and PEXPIRE, EVALSHA of HDEL and PUBLISH; it cannot wait",
	Limit:    true,
	Open:     openRaw(redissonAcquire, redissonRelease, true),
}

var rawGoredis = &System{
	Name:     "raw/go-redis",
	Module:   "github.com/redis/go-redis/v9",
	Settings: "as raw/rueidis, on go-redis with its defaults",
	Limit:    true,
	Open:     openRawGoredis,
}

// rawLease is the lease of systems that cannot renew, in ms.
const rawLease = "30000"

// errBusy is the error of systems that cannot wait.
var errBusy = errors.New("the lock is held, and a raw script cannot wait")

// rawScript is a script that a rueidis client calls without garbage.
type rawScript struct {
	client rueidis.Client
	sha    string
}

func loadRaw(ctx context.Context, client rueidis.Client, text string) (rawScript, error) {
	sum := sha1.Sum([]byte(text))
	s := rawScript{client, hex.EncodeToString(sum[:])}
	for _, node := range client.Nodes() { // of a cluster each has to know it
		if err := node.Do(ctx, node.B().ScriptLoad().Script(text).Build()).Error(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// run calls the script, which has one or two keys.
func (s rawScript) run(ctx context.Context, keys, args []string) (int64, error) {
	c := s.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	return s.client.Do(ctx, c).AsInt64()
}

// newRueidis returns a client with the defaults of rueidis. A cluster has several addresses.
func newRueidis(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(addr, ",")})
}

func openRaw(acquire, release string, announces bool) rig.Open {
	return func(ctx context.Context, addr string) (workload.Locker, func(), error) {
		client, err := newRueidis(addr)
		if err != nil {
			return nil, nil, err
		}
		r := rawLocker{client: client, announces: announces}
		if r.acquire, err = loadRaw(ctx, client, acquire); err == nil {
			r.release, err = loadRaw(ctx, client, release)
		}
		if err != nil {
			client.Close()
			return nil, nil, err
		}
		return r, client.Close, nil
	}
}

// rawLocker acquires locks with one script and releases them with another.
type rawLocker struct {
	client           rueidis.Client
	acquire, release rawScript
	announces        bool // a second key is the channel
}

func (r rawLocker) Lock(ctx context.Context, key string) (workload.Hold, error) {
	return r.Of(key).Lock(ctx, key)
}

// Of implements [workload.Namer].
func (r rawLocker) Of(key string) workload.Locker {
	l := &rawLock{rawLocker: r, keys: []string{key}, args: []string{newID() + ":1", rawLease}}
	if r.announces {
		l.keys = append(l.keys, "channel:"+key)
	}
	return l
}

// Read implements [workload.Sided]: for one who is alone, both sides are the same.
func (r rawLocker) Read() workload.Locker { return r }

// Permit implements [workload.Permitter]: one who is alone gets the permit.
func (r rawLocker) Permit(context.Context, string, int) error { return nil }

// newID returns an id as long as that of a client of Redisson.
func newID() string {
	b := make([]byte, 18)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// rawLock is one lock, and the hold of it.
type rawLock struct {
	rawLocker
	keys, args []string
}

func (l *rawLock) Lock(ctx context.Context, _ string) (workload.Hold, error) {
	return l, done(l.acquire.run(ctx, l.keys, l.args))
}

func (l *rawLock) Unlock() error {
	return done(l.release.run(context.Background(), l.keys, l.args[:1]))
}

func done(n int64, err error) error {
	if err == nil && n != 1 {
		err = errBusy
	}
	return err
}

func openRawGoredis(ctx context.Context, addr string) (workload.Locker, func(), error) {
	client := newGoredis(addr)
	r := goredisRaw{client: client}
	var err error
	if r.acquire, err = client.ScriptLoad(ctx, rawAcquire).Result(); err == nil {
		r.release, err = client.ScriptLoad(ctx, rawRelease).Result()
	}
	if err != nil {
		closing(client)()
		return nil, nil, err
	}
	return r, closing(client), nil
}

// goredisRaw is rawLocker on go-redis.
type goredisRaw struct {
	client           *goredis.Client
	acquire, release string
}

func (r goredisRaw) Lock(ctx context.Context, key string) (workload.Hold, error) {
	return r.Of(key).Lock(ctx, key)
}

// Of implements [workload.Namer].
func (r goredisRaw) Of(key string) workload.Locker {
	return &goredisRawLock{r, []string{key}, newID() + ":1"}
}

type goredisRawLock struct {
	goredisRaw
	keys []string
	id   string
}

func (l *goredisRawLock) Lock(ctx context.Context, _ string) (workload.Hold, error) {
	return l, done(l.client.EvalSha(ctx, l.acquire, l.keys, l.id, rawLease).Int64())
}

func (l *goredisRawLock) Unlock() error {
	return done(l.client.EvalSha(context.Background(), l.release, l.keys, l.id).Int64())
}
