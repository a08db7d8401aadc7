package doctor

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// clock is a reading of a server's clock.
type clock struct {
	ahead time.Duration // of this machine's clock
	error time.Duration // how wrong that may be, in both directions
}

// clocks compares the clocks of the servers with that of this machine, and with each other.
func (e *exam) clocks(ctx context.Context) {
	const id = "clock"
	const wrong = time.Second
	var first, last *clock
	var early, late string
	for _, s := range e.servers {
		c, err := e.clock(ctx, s)
		if err != nil {
			e.addOnce(e.unknown(id, GroupServer, err, "time"))
			continue
		}
		if first == nil || c.ahead < first.ahead {
			first, early = c, s.addr
		}
		if last == nil || c.ahead > last.ahead {
			last, late = c, s.addr
		}
	}
	if first == nil {
		return
	}
	worst := first
	if last.ahead > -first.ahead {
		worst = last
	}
	f := Finding{ID: id, Group: GroupServer, Severity: OK, Found: fmt.Sprintf("the clock of the server and that of this machine differ by %s, ± %s", short(worst.ahead.Abs()), short(worst.error))}
	if worst.ahead.Abs()-worst.error > wrong {
		direction := "ahead of"
		if worst.ahead < 0 {
			direction = "behind"
		}
		f.Severity = Warning
		f.Found = fmt.Sprintf("the clock of the server is %s %s that of this machine, ± %s. mortise compares no clocks, but Redisson's clients take permits of semaphores back by their own", short(worst.ahead.Abs()), direction, short(worst.error))
		f.Do, f.Command = "Set both clocks by NTP. A jump of the server's clock ends leases, or keeps them.", "timedatectl status"
	}
	e.add(f)
	if len(e.servers) < 2 {
		return
	}
	f = Finding{ID: "clock-between-servers", Group: GroupServer, Severity: OK, Found: fmt.Sprintf("the clocks of the servers differ by %s at most, ± %s", short(last.ahead-first.ahead), short(first.error+last.error))}
	if last.ahead-first.ahead-first.error-last.error > wrong {
		f.Severity = Warning
		f.Found = fmt.Sprintf("the clock of %s is %s ahead of that of %s: after a failover, deadlines and permits end too early, or too late", late, short(last.ahead-first.ahead), early)
		f.Do, f.Command = "Set the clocks of the servers by NTP.", "timedatectl status"
	}
	e.add(f)
}

// clock reads the clock of a server: the best of some readings.
func (e *exam) clock(ctx context.Context, s *server) (best *clock, err error) {
	const readings = 5
	for range readings {
		start := time.Now()
		v, err := e.time(ctx, s)
		if err != nil {
			return nil, err
		}
		trip := time.Since(start)
		seconds, err1 := strconv.ParseInt(v.At(0).Str(), 10, 64)
		micros, err2 := strconv.ParseInt(v.At(1).Str(), 10, 64)
		if err1 != nil || err2 != nil {
			return nil, text("the server gives no time")
		}
		c := &clock{ahead: time.Unix(seconds, micros*1000).Sub(start.Add(trip / 2)), error: trip / 2}
		if best == nil || c.error < best.error {
			best = c
		}
	}
	return best, nil
}

var readTime = driver.NewScript("doctor_time", "return redis.call('time')")

// time asks a server for the time. If it is the only one, a script can, too.
func (e *exam) time(ctx context.Context, s *server) (driver.Value, error) {
	if !e.topology.Cluster {
		return e.eval(ctx, readTime, "")
	}
	return e.command(ctx, s.addr, "TIME")
}
