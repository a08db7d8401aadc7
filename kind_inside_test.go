package mortise

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/memredis"
)

// The code below is the example in CONTRIBUTING of a new kind of lock. There, the first
// part is a file of this package, and the second part one of internal/script.

// TextLock is a lock that is a string in Redis: the id of its holder.
type TextLock struct {
	locker
	script textScripts
}

// TextLock returns the lock called name. It does no I/O.
func (c *Client) TextLock(name string) *TextLock {
	k := &TextLock{script: textScripts{c.driver, name}}
	k.init(object{c, name}, &textTraits, &k.script)
	return k
}

var textTraits = traits{use: newUse(class{}), handsOff: true}

// textScripts is the operations of a lock that is a string.
type textScripts struct {
	driver driver.Driver
	name   string
}

func (k *textScripts) Channel() string { return keyspace.LockChannel(k.name) }

var textAcquire = driver.NewScript("text_acquire", `
local owner = redis.call('get', KEYS[1])
if not owner then
  redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
  owner = ARGV[1]
end
return {owner, redis.call('pttl', KEYS[1])}`)

func (k *textScripts) Acquire(ctx context.Context, a script.Attempt) (g script.Grant, err error) {
	v, err := k.eval(ctx, textAcquire, a.ID, millis(a.Lease))
	g.OK = v.At(0).Str() == a.ID // also if an earlier copy has taken it
	g.By = script.Holder{Owner: v.At(0).Str(), Count: 1, TTL: time.Duration(v.At(1).Int()) * time.Millisecond}
	return g, err
}

var textReenter = driver.NewScript("text_reenter", `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`)

func (k *textScripts) Reenter(ctx context.Context, id string, _ int, lease time.Duration) (g script.Grant, err error) {
	v, err := k.eval(ctx, textReenter, id, millis(lease))
	g.OK = v.Int() == 1
	return g, err
}

func (k *textScripts) Leave(context.Context, string, int) (bool, error) {
	return true, nil // there is no count in Redis
}

var textRelease = driver.NewScript("text_release", `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', ARGV[2], '0')
return 1`)

func (k *textScripts) Release(ctx context.Context, id string, _ script.Turns) (f script.Freed, err error) {
	v, err := k.eval(ctx, textRelease, id, k.Channel())
	if v.Int() == 1 {
		f.Released = script.ReleasedNow
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

func (k *textScripts) Renewal(id string, lease time.Duration) script.Renewal {
	return script.Renewal{Script: textRenew, Key: k.name, Args: []string{id, millis(lease)}}
}

func (k *textScripts) eval(ctx context.Context, s *driver.Script, args ...string) (driver.Value, error) {
	return k.driver.Eval(ctx, driver.Call{Script: s, Keys: []string{k.name}, Args: args})
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// The example ends here.

// A declared kind has what all kinds have: re-entry, renewal of its leases, one wait queue
// for each client, hand-offs in the process, and notifications for waiters in other
// processes.
func TestKindThatIsDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		here, there := New(s.Driver(), nil), New(s.Driver(), nil)
		defer here.Close()
		defer there.Close()
		must := func(hold *Hold, ctx context.Context, err error) (*Hold, context.Context) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return hold, ctx
		}
		hold, ctx := must(here.TextLock("job").Lock(t.Context()))
		again, _ := must(here.TextLock("job").Lock(ctx))
		var held *HeldError
		if _, _, err := there.TextLock("job").TryLock(t.Context()); !errors.As(err, &held) || held.Owner != hold.Owner() {
			t.Errorf("TryLock of another client: %v, want it to be refused because of %s", err, hold.Owner())
		}
		time.Sleep(10 * time.Minute) // many leases
		if !hold.Valid() || again.Unlock() != nil || !hold.Valid() {
			t.Error("the lock is not held as long as its last hold")
		}

		// Two goroutines wait: that of the same client is handed the lease, whose id stays,
		// and that of another client is notified of the release.
		next := make(chan *Hold)
		for _, c := range []*Client{here, there} {
			go func() {
				hold, _, err := c.TextLock("job").Lock(t.Context())
				if err != nil {
					t.Error(err)
				}
				next <- hold
			}()
			synctest.Wait()
		}
		start, id := time.Now(), hold.Owner()
		for n := range 2 {
			if err := hold.Unlock(); err != nil {
				t.Error(err)
			}
			if hold = <-next; (hold.Owner() == id) != (n == 0) {
				t.Errorf("the %d. of those who wait has the lease %s after %s", n+1, hold.Owner(), id)
			}
		}
		if waited := time.Since(start); waited > poll/2 {
			t.Errorf("they have waited for %v, want them to be woken", waited)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
		exists := driver.Call{Script: driver.NewScript("exists", "return redis.call('exists', KEYS[1])"), Keys: []string{"job"}}
		if v, err := here.driver.Eval(t.Context(), exists); err != nil || v.Int() != 0 {
			t.Errorf("after the last release the key exists: %v, %v", v, err)
		}
	})
}

// The example in CONTRIBUTING is the code above.
func TestContributingShowsCodeThatRuns(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("kind_inside_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 2 {
		t.Fatalf("CONTRIBUTING has %d blocks of Go, want the two parts of a kind of lock: is it read right?", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(string(code), block[1]) {
			t.Errorf("this block of CONTRIBUTING is not in the example:\n%s", block[1])
		}
	}
}
