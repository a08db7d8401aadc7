package script

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

// TextLock is the operations of a lock that is a string.
type TextLock struct {
	driver driver.Driver
	name   string
}

// TextLock returns the operations of the lock called name.
func (c *Conn) TextLock(name string) TextLock { return TextLock{c.driver, name} }

// Channel returns the channel that announces releases.
func (k *TextLock) Channel() string { return keyspace.LockChannel(k.name) }

var textAcquire = driver.NewScript("text_acquire", `
local owner = redis.call('get', KEYS[1])
if not owner then
  redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
  owner = ARGV[1]
end
return {owner, redis.call('pttl', KEYS[1])}`)

// Acquire acquires the lock if it is free.
func (k *TextLock) Acquire(ctx context.Context, a Attempt) (g Grant, err error) {
	v, err := k.eval(ctx, textAcquire, a.ID, millis(a.Lease))
	g.OK = v.At(0).Str() == a.ID // also if an earlier copy has taken it
	g.By = Holder{Owner: v.At(0).Str(), Count: 1, TTL: time.Duration(v.At(1).Int()) * time.Millisecond}
	return g, err
}

var textReenter = driver.NewScript("text_reenter", `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`)

// Reentry extends the lease of id.
func (k *TextLock) Reentry(id string, _ int, lease time.Duration) Reentry {
	call := driver.Call{Script: textReenter, Keys: []string{k.name}, Args: []string{id, millis(lease)}}
	return Reentry{call, func(v driver.Value) (Grant, error) { return Grant{OK: v.Int() == 1}, nil }}
}

// Leave does nothing: there is no count in Redis.
func (k *TextLock) Leave(context.Context, string, int) (bool, error) {
	return true, nil
}

var textRelease = driver.NewScript("text_release", `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', ARGV[2], '0')
return 1`)

// Release releases the lock of id.
func (k *TextLock) Release(ctx context.Context, id string, _ Turns) (f Freed, err error) {
	v, err := k.eval(ctx, textRelease, id, k.Channel())
	if v.Int() == 1 {
		f.Released = ReleasedNow
	}
	return f, err
}

var textRenew = driver.NewScript("text_renew", `
local states = {}
for i = 1, #KEYS do
  local owner, lease = ARGV[4 * i - 3], tonumber(ARGV[4 * i - 2])
  if redis.pcall('get', KEYS[i]) == owner then
    if redis.call('pttl', KEYS[i]) < lease then redis.call('pexpire', KEYS[i], lease) end
    states[i] = 1
  else
    states[i] = -redis.call('exists', KEYS[i])
  end
end
states[#KEYS + 1] = 0
return states`)

// Renewal extends the lease of id.
func (k *TextLock) Renewal(id string, lease time.Duration) Renewal {
	return Renewal{Script: textRenew, Key: k.name, Args: []string{id, millis(lease)}}
}

func (k *TextLock) eval(ctx context.Context, s *driver.Script, args ...string) (driver.Value, error) {
	return k.driver.Eval(ctx, driver.Call{Script: s, Keys: []string{k.name}, Args: args})
}
