//go:build server

package doctor_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/redistest"
)

// What clients tell is read wherever the records lie.
func TestRealRecords(t *testing.T) {
	t.Parallel()
	eachDeployment(t, func(t *testing.T, on deployment) {
		const a, b, c = "8f1c2b3a-0000-8000-8000-00000000000a", "8f1c2b3a-0000-8000-8000-00000000000b", "8f1c2b3a-0000-8000-8000-00000000000c"
		now := time.Now().UnixMilli()
		record := func(id, body string, ago int64) {
			on.must(t, "HSET", "mortise:client:{"+id+"}", "body", body, "at", fmt.Sprint(now-ago), "edition", "1")
			on.must(t, "ZADD", "mortise:clients:{all}", fmt.Sprint(now+600_000), id)
		}
		part := func(host, id, holds, other, waits string) string {
			return fmt.Sprintf(`{"host":%q,"mortise":"v1.0.0","holds":[{"name":%q,"kind":"lock","owner":"%s:1","since":%d}],`+
				`"waits":[{"name":%q,"kind":"lock","since":%d,"serial":1,"for":"%s:1","under":[{"name":%q,"owner":"%s:1"}]}]}`,
				host, holds, id, now, waits, now, other, holds, id)
		}
		r := report(t, on.d, nil)
		wantFinding(t, r, "silent-client", doctor.OK)
		wantFinding(t, r, "deadlock", doctor.OK)

		record(a, part("api-1", a, "stock", b, "orders"), 0)
		record(b, part("api-2", b, "orders", a, "stock"), 0)
		record(c, `{"host":"db-2","pid":7,"mortise":"v0.9.0"}`, 3_600_000)
		r = report(t, on.d, nil)
		if f := wantFinding(t, r, "silent-client", doctor.Warning, "db-2 pid 7", "mortise who "+c); !slices.Equal(f.Names, []string{c}) {
			t.Errorf("silent: %q", f.Names)
		}
		if f := wantFinding(t, r, "deadlock", doctor.Critical, "api-1", "api-2", "mortise unlock --ask"); len(f.Names) != 2 {
			t.Errorf("deadlock: %q", f.Names)
		}
		if f := wantFinding(t, r, "versions", doctor.Info, "v0.9.0", "v1.0.0"); !slices.Equal(f.Names, []string{c}) {
			t.Errorf("versions: %q", f.Names)
		}
	})
}

// A way that is slow is found, before waiters wonder.
func TestRealSlowWay(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	p := redistest.NewProxy(t, s.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), DialerRetries: 1})
	d := goredis.Wrap(rdb)
	t.Cleanup(func() { _ = d.Close(); _ = rdb.Close() })
	p.Delay(60 * time.Millisecond)
	r := report(t, d, &doctor.Options{Keys: 1})
	wantFinding(t, r, "script-latency", doctor.Warning, "--latency")
	wantFinding(t, r, "messages", doctor.Warning, "hand-over")
	wantFinding(t, r, "clock", doctor.OK) // what the way leaves open is no difference
	p.Delay(150 * time.Millisecond)
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "script-latency", doctor.Critical)
}
