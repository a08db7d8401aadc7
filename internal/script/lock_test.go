package script_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

const lease = 2 * time.Minute

// Keys that the scripts of a lock must leave alone, for every caller: an RWLock's
// hash, and keys that are no hashes. want is the reply for a hash.
func foreign(want answer) []row {
	return []row{
		{name: "read lock", setup: held(lease, "mode", "read", java, "1"), want: want,
			after: "hash " + java + "=1 mode=read", ttl: lease},
		{name: "write lock", setup: held(lease, "mode", "write", java+":write", "2"), want: want,
			after: "hash " + java + ":write=2 mode=write", ttl: lease},
		{name: "string", setup: text, want: refused("wrong type"), after: "string 5", ttl: 10 * time.Minute},
		{name: "list", setup: list, want: refused("wrong type"), after: `list ["a"]`, ttl: none},
	}
}

func TestLockAcquire(t *testing.T) {
	table(t, func(ctx context.Context, d driver.Driver) answer {
		return answered(acquire(ctx, d, job, me, lease))
	}, append(foreign(refused("kind")), []row{
		{name: "free", setup: nothing, want: yes, after: "hash " + me + "=1", ttl: lease},
		// An earlier copy of this call has run.
		{name: "mine", setup: held(time.Minute, me, "1"), want: yes, after: "hash " + me + "=1", ttl: lease},
		{name: "mine, re-entered since", setup: held(time.Minute, me, "3"), want: yes, after: "hash " + me + "=3", ttl: lease},
		{name: "mine, for longer", setup: held(10*time.Minute, me, "1"), want: yes, after: "hash " + me + "=1", ttl: 10 * time.Minute},
		{name: "mine, without TTL", setup: held(none, me, "1"), want: yes, after: "hash " + me + "=1", ttl: lease},
		// The lock of another owner.
		{name: "another number of this client", setup: held(lease, mine2, "1"), want: heldBy(mine2, 1, lease), after: "hash " + mine2 + "=1", ttl: lease},
		{name: "Java's", setup: held(lease, java, "1"), want: heldBy(java, 1, lease), after: "hash " + java + "=1", ttl: lease},
		{name: "Java's, counted", setup: held(10*time.Minute, java, "17"), want: heldBy(java, 17, 10*time.Minute), after: "hash " + java + "=17", ttl: 10 * time.Minute},
		{name: "negative thread", setup: held(lease, javaN, "1"), want: heldBy(javaN, 1, lease), after: "hash " + javaN + "=1", ttl: lease},
		{name: "transaction", setup: held(lease, javaT, "1"), want: heldBy(javaT, 1, lease), after: "hash " + javaT + "=1", ttl: lease},
		{name: "without TTL", setup: held(none, java, "1"), want: heldBy(java, 1, -1), after: "hash " + java + "=1", ttl: none},
		{name: "count that is no number", setup: held(lease, java, "many"), want: heldBy(java, -1, lease), after: "hash " + java + "=many", ttl: lease},
		{name: "read lock with me in it", setup: held(lease, "mode", "read", me, "1"), want: refused("kind"), after: "hash " + me + "=1 mode=read", ttl: lease},
	}...))
}

func TestLockAcquireForTheLongestLease(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	table(t, func(ctx context.Context, d driver.Driver) answer {
		return answered(acquire(ctx, d, job, me, longest))
	}, []row{
		{name: "free", setup: nothing, want: yes, after: "hash " + me + "=1", ttl: longest.Truncate(time.Millisecond)},
		{name: "mine", setup: held(time.Minute, me, "2"), want: yes, after: "hash " + me + "=2", ttl: longest.Truncate(time.Millisecond)},
	})
}

// A key must not outlive the lease that its holder was told.
func TestLockAcquireDropsPartsOfAMillisecond(t *testing.T) {
	table(t, func(ctx context.Context, d driver.Driver) answer {
		return answered(acquire(ctx, d, job, me, lease+999*time.Microsecond))
	}, []row{
		{name: "free", setup: nothing, want: yes, after: "hash " + me + "=1", ttl: lease},
	})
}

func TestLockReenter(t *testing.T) {
	table(t, func(ctx context.Context, d driver.Driver) answer {
		ok, err := reenter(ctx, d, script.LockReentry(job, me, 2, lease))
		return answered(ok, script.Holder{}, err)
	}, append(foreign(no), []row{
		{name: "mine", setup: held(time.Minute, me, "1"), want: yes, after: "hash " + me + "=2", ttl: lease},
		{name: "mine, entered already", setup: held(time.Minute, me, "2"), want: yes, after: "hash " + me + "=2", ttl: lease},
		{name: "mine, counted too high", setup: held(time.Minute, me, "9"), want: yes, after: "hash " + me + "=2", ttl: lease},
		{name: "mine, for longer", setup: held(10*time.Minute, me, "1"), want: yes, after: "hash " + me + "=2", ttl: 10 * time.Minute},
		{name: "mine, without TTL", setup: held(none, me, "1"), want: yes, after: "hash " + me + "=2", ttl: lease},
		{name: "mine, count that is no number", setup: held(time.Minute, me, "x"), want: yes, after: "hash " + me + "=2", ttl: lease},
		{name: "free", setup: nothing, want: no, after: "nothing", ttl: absent},
		{name: "Java's", setup: held(lease, java, "1"), want: no, after: "hash " + java + "=1", ttl: lease},
		{name: "another number of this client", setup: held(lease, mine2, "1"), want: no, after: "hash " + mine2 + "=1", ttl: lease},
	}...))
}

func TestLockLeave(t *testing.T) {
	table(t, func(ctx context.Context, d driver.Driver) answer {
		ok, err := script.LockLeave(ctx, d, job, me, 1)
		return answered(ok, script.Holder{}, err)
	}, append(foreign(no), []row{
		{name: "mine", setup: held(lease, me, "2"), want: yes, after: "hash " + me + "=1", ttl: lease},
		{name: "mine, left already", setup: held(lease, me, "1"), want: yes, after: "hash " + me + "=1", ttl: lease},
		{name: "mine, counted too high", setup: held(lease, me, "9"), want: yes, after: "hash " + me + "=1", ttl: lease},
		{name: "mine, for longer", setup: held(10*time.Minute, me, "2"), want: yes, after: "hash " + me + "=1", ttl: 10 * time.Minute},
		{name: "mine, without TTL", setup: held(none, me, "2"), want: yes, after: "hash " + me + "=1", ttl: none},
		{name: "free", setup: nothing, want: no, after: "nothing", ttl: absent},
		{name: "Java's", setup: held(lease, java, "2"), want: no, after: "hash " + java + "=2", ttl: lease},
		{name: "another number of this client", setup: held(lease, mine2, "2"), want: no, after: "hash " + mine2 + "=2", ttl: lease},
	}...))
}

func TestLockRelease(t *testing.T) {
	table(t, func(ctx context.Context, d driver.Driver) answer {
		ok, err := released(script.LockRelease(ctx, d, job, me, script.Classic, script.Turns{}))
		return answered(ok, script.Holder{}, err)
	}, append(foreign(no), []row{
		{name: "mine", setup: held(lease, me, "1"), want: yes, after: "nothing", ttl: absent, messages: []string{"0"}, repeat: &no},
		{name: "mine, whatever the count", setup: held(lease, me, "7"), want: yes, after: "nothing", ttl: absent, messages: []string{"0"}, repeat: &no},
		{name: "mine, without TTL", setup: held(none, me, "1"), want: yes, after: "nothing", ttl: absent, messages: []string{"0"}, repeat: &no},
		{name: "mine, count that is no number", setup: held(lease, me, "x"), want: yes, after: "nothing", ttl: absent, messages: []string{"0"}, repeat: &no},
		{name: "free", setup: nothing, want: no, after: "nothing", ttl: absent},
		{name: "Java's", setup: held(lease, java, "2"), want: no, after: "hash " + java + "=2", ttl: lease},
		{name: "another number of this client", setup: held(none, mine2, "1"), want: no, after: "hash " + mine2 + "=1", ttl: none},
	}...))
}

func TestLockKeep(t *testing.T) {
	const keeper = me + ":kept"
	const writer, wrote = me + ":write", me + ":kept:write"
	for longer, long := range map[bool]time.Duration{false: lease, true: 10 * time.Minute} {
		table(t, func(ctx context.Context, d driver.Driver) answer {
			ok, err := released(script.LockKeep(ctx, d, job, me, keeper, lease, longer))
			return answered(ok, script.Holder{}, err)
		}, append(foreign(no), []row{
			{name: "mine", setup: held(10*time.Minute, me, "1"), want: yes, after: "hash " + keeper + "=1", ttl: long},
			{name: "mine, counted", setup: held(lease, me, "7"), want: yes, after: "hash " + keeper + "=1", ttl: lease},
			{name: "mine, for a shorter time", setup: held(time.Minute, me, "1"), want: yes, after: "hash " + keeper + "=1", ttl: lease},
			{name: "mine, without TTL", setup: held(none, me, "1"), want: yes, after: "hash " + keeper + "=1", ttl: lease},
			// An earlier copy of this call has run.
			{name: "kept", setup: held(lease, keeper, "1"), want: yes, after: "hash " + keeper + "=1", ttl: lease},
			{name: "kept, and this copy is late", setup: held(time.Minute, keeper, "1"), want: yes, after: "hash " + keeper + "=1", ttl: time.Minute},
			{name: "kept, and this copy cuts it", setup: held(10*time.Minute, keeper, "1"), want: yes, after: "hash " + keeper + "=1", ttl: long},
			{name: "free", setup: nothing, want: no, after: "nothing", ttl: absent},
			{name: "Java's", setup: held(lease, java, "2"), want: no, after: "hash " + java + "=2", ttl: lease},
			{name: "another number of this client", setup: held(none, mine2, "1"), want: no, after: "hash " + mine2 + "=1", ttl: none},
		}...))
	}
	// A client that is closed leaves its writer as it is, and its reader.
	table(t, func(ctx context.Context, d driver.Driver) answer {
		ok, err := released(script.LockKeep(ctx, d, job, writer, wrote, lease, true))
		return answered(ok, script.Holder{}, err)
	}, []row{
		{name: "writer", setup: held(10*time.Minute, "mode", "write", writer, "1"), want: yes, after: "hash " + wrote + "=1 mode=write", ttl: 10 * time.Minute},
		{name: "writer that reads, too", setup: held(10*time.Minute, "mode", "write", writer, "1", me, "2"), want: yes,
			after: "hash " + me + "=2 " + wrote + "=1 mode=write", ttl: 10 * time.Minute},
		{name: "writer that reads for a shorter time", setup: held(time.Minute, "mode", "write", writer, "1", me, "2"), want: yes,
			after: "hash " + me + "=2 " + wrote + "=1 mode=write", ttl: lease},
		{name: "another writer", setup: held(lease, "mode", "write", java+":write", "1"), want: no, after: "hash " + java + ":write=1 mode=write", ttl: lease},
	})
}

// What was kept is nobody's: copies of the scripts of its former owner that are late do not
// change it, and a release by force frees it.
func TestLockKeptIsNobodys(t *testing.T) {
	const keeper = me + ":kept"
	for name, late := range map[string]func(ctx context.Context, d driver.Driver) answer{
		"acquisition": func(ctx context.Context, d driver.Driver) answer {
			return answered(acquire(ctx, d, job, me, 10*time.Minute))
		},
		"re-entry": func(ctx context.Context, d driver.Driver) answer {
			ok, err := reenter(ctx, d, script.LockReentry(job, me, 2, 10*time.Minute))
			return answered(ok, script.Holder{}, err)
		},
		"leave": func(ctx context.Context, d driver.Driver) answer {
			ok, err := script.LockLeave(ctx, d, job, me, 1)
			return answered(ok, script.Holder{}, err)
		},
		"release": func(ctx context.Context, d driver.Driver) answer {
			ok, err := released(script.LockRelease(ctx, d, job, me, script.Classic, script.Turns{}))
			return answered(ok, script.Holder{}, err)
		},
		"renewal": func(ctx context.Context, d driver.Driver) answer {
			got := script.Renew(ctx, d, [][]script.Renewal{{script.LockRenewal(job, me, 10*time.Minute)}})[0]
			return answered(got.Err == nil && got.States[0] == script.Renewed, script.Holder{}, got.Err)
		},
	} {
		want := no
		if name == "acquisition" {
			want = heldBy(keeper, 1, lease)
		}
		table(t, late, []row{{name: name, setup: held(lease, keeper, "1"), want: want, after: "hash " + keeper + "=1", ttl: lease}})
	}
}

func TestLockReleaseSilently(t *testing.T) {
	table(t, func(ctx context.Context, d driver.Driver) answer {
		ok, err := released(script.LockRelease(ctx, d, job, me, script.Silent, script.Turns{}))
		return answered(ok, script.Holder{}, err)
	}, append(foreign(no), []row{
		{name: "mine", setup: held(lease, me, "3"), want: yes, after: "nothing", ttl: absent, repeat: &no},
		{name: "Java's", setup: held(lease, java, "2"), want: no, after: "hash " + java + "=2", ttl: lease},
	}...))
}

// acquire acquires without taking a turn.
func acquire(ctx context.Context, d driver.Driver, key, owner string, lease time.Duration) (bool, script.Holder, error) {
	ok, by, _, err := script.LockAcquire(ctx, d, key, owner, lease, "")
	return ok, by, err
}
