package report

import (
	"slices"
	"time"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

// Figures are the results of one trial.
type Figures struct {
	Seconds      float64 `json:"seconds"`
	Acquisitions int64   `json:"acquisitions"`
	PerSecond    float64 `json:"per_second"`
	HandOvers    float64 `json:"hand_overs"` // to other goroutines, per second
	Across       float64 `json:"across"`     // to other processes, per second
	Jain         float64 `json:"jain"`
	JainAcross   float64 `json:"jain_across"` // over processes
	Goroutines   int     `json:"goroutines"`
	Starved      int     `json:"starved"`
	SecondShare  float64 `json:"second_share,omitempty"` // of the second system, as a multiple of its even share
	Utilisation  float64 `json:"utilisation"`
	Inside       float64 `json:"inside"`           // how many held the lock at a time, on average
	Writes       float64 `json:"writes,omitempty"` // per second; PerSecond has them, too

	Overlaps int64  `json:"overlaps"`
	Failures int64  `json:"failures"`
	Failure  string `json:"failure,omitempty"`
	Hung     int    `json:"hung"`

	WaitP50   time.Duration `json:"wait_p50"`
	WaitP99   time.Duration `json:"wait_p99"`
	WaitMax   time.Duration `json:"wait_max"`
	WriteP50  time.Duration `json:"write_p50,omitempty"` // of those that write, whose waits are not in the others
	WriteP99  time.Duration `json:"write_p99,omitempty"`
	WriteMax  time.Duration `json:"write_max,omitempty"`
	GapP50    time.Duration `json:"gap_p50"` // unlock to the next one's lock, within a process
	AcrossP50 time.Duration `json:"across_p50"`
	AcrossP99 time.Duration `json:"across_p99"`

	Commands    map[string]int64 `json:"commands,omitempty"`
	Sent        float64          `json:"sent"`              // commands that clients sent, per acquisition
	Inner       float64          `json:"inner"`             // commands that scripts called, per acquisition
	SentRate    float64          `json:"sent_rate"`         // per second
	Allocs      float64          `json:"allocs"`            // per acquisition
	AllocBytes  float64          `json:"alloc_bytes"`       // per acquisition
	ClientCPU   float64          `json:"client_cpu"`        // cores
	ServerCPU   float64          `json:"server_cpu"`        // cores
	ClientEach  float64          `json:"client_each"`       // µs per acquisition
	ServerEach  float64          `json:"server_each"`       // µs per acquisition
	BytesEach   float64          `json:"bytes_each"`        // per lock held, or per waiter
	RoutinesPer float64          `json:"routines_per"`      // goroutines per lock held, or per waiter
	ServerBytes float64          `json:"server_bytes"`      // in Redis, per lock held, or per waiter
	Busiest     float64          `json:"busiest,omitempty"` // the part of the busiest shard in the server's CPU
	Lost        int              `json:"lost"`
	Acquired    int              `json:"acquired"` // by waiters of a lock that was held
}

// sentByAll names the commands that clients of any system send.
var sentByAll = []string{
	"evalsha", "eval", "script|load", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe",
	"hello", "auth", "ping", "select", "command", "cluster|slots", "cluster|shards", "client|setinfo", "client|setname",
	"client|tracking", "client|maint_notifications", "client", "role", "wait", "multi", "exec", "quit",
}

// Split divides the commands that a server has run into those sent by clients and those called by
// scripts. Sends names the commands that a system's clients send, in addition to those that every client
// sends.
func Split(commands map[string]int64, sends []string) (sent, inner int64) {
	for name, n := range commands {
		if slices.Contains(sentByAll, name) || slices.Contains(sends, name) {
			sent += n
		} else {
			inner += n
		}
	}
	return sent, inner
}

// NewFigures returns the figures of a trial.
func NewFigures(o *rig.Outcome, sends []string) *Figures {
	r := o.Result
	sent, inner := Split(o.Server.Commands, sends)
	f := &Figures{
		Seconds:      r.Seconds,
		Acquisitions: r.Acquisitions(),
		PerSecond:    r.PerSecond(r.Acquisitions()),
		HandOvers:    r.PerSecond(r.HandOvers),
		Across:       r.PerSecond(r.Across),
		Jain:         r.Jain(),
		JainAcross:   workload.Jain(r.Processes),
		Goroutines:   len(r.Counts) + len(r.Writers),
		Starved:      r.Starved(),
		Utilisation:  r.Utilisation(),
		Writes:       r.PerSecond(r.Writes()),
		SecondShare:  o.SecondShare,
		Overlaps:     r.Overlaps,
		Failures:     r.Failures,
		Failure:      r.Failure,
		Hung:         r.Hung,
		WaitP50:      r.Waits.Quantile(0.5),
		WaitP99:      r.Waits.Quantile(0.99),
		WaitMax:      r.Waits.Max(),
		WriteP50:     r.WriteWaits.Quantile(0.5),
		WriteP99:     r.WriteWaits.Quantile(0.99),
		WriteMax:     r.WriteWaits.Max(),
		GapP50:       r.Gaps.Quantile(0.5),
		AcrossP50:    r.AcrossGap.Quantile(0.5),
		AcrossP99:    r.AcrossGap.Quantile(0.99),
		Commands:     o.Server.Commands,
		Allocs:       r.Per(float64(r.Mallocs)),
		AllocBytes:   r.Per(float64(r.AllocBytes)),
		ClientEach:   r.Per(r.CPU * 1e6),
	}
	if r.Seconds > 0 {
		f.ClientCPU, f.Inside = r.CPU/r.Seconds, r.Inside/r.Seconds
	}
	// The server was observed for a little less time than the window lasted.
	if o.ServerSeconds > 0 {
		f.SentRate, f.ServerCPU = float64(sent)/o.ServerSeconds, o.Server.CPU/o.ServerSeconds
		if f.PerSecond > 0 {
			f.Sent = f.SentRate / f.PerSecond
			f.Inner = float64(inner) / o.ServerSeconds / f.PerSecond
			f.ServerEach = f.ServerCPU / f.PerSecond * 1e6
		}
	}
	if o.Server.CPU > 0 && len(o.Server.Shards) > 0 {
		f.Busiest = slices.Max(o.Server.Shards) / o.Server.CPU
	}
	if e := r.Each; e != nil {
		f.ServerBytes = o.ServerMemory / float64(e.N)
		f.BytesEach, f.RoutinesPer, f.Lost, f.Acquired = e.Bytes, e.Goroutines, e.Lost, e.Acquired
	}
	return f
}
