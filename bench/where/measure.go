package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/mortise-go/mortise/bench/peer"
	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/bench/rig"
)

// measurement is how all systems are measured.
type measurement struct {
	window   time.Duration
	also     kinds
	profiles string // where profiles are kept; empty: nowhere
}

// column is what one system took, in µs for each unit of the load.
type column struct {
	system, least string
	seconds       float64 // of the window
	units         int64

	elapsed float64

	// Of the server: its CPU time in user mode and in the kernel, and the time of its commands by the
	// clock, those that clients sent and those that scripts called.
	user, sys     float64
	sent, inner   map[string]spent
	reads, writes float64 // system calls of the server

	client  float64 // CPU time of all processes
	samples float64 // of the profile
	costs   map[cost]float64

	mallocs, bytes float64
	waits          map[string][]wait // by the name of the profile
}

// warmup is how long a load runs before it is measured.
const warmup = 500 * time.Millisecond

// load measures all systems of a load, one after the other.
func (m *measurement) load(ctx context.Context, l *load) (columns []*column, err error) {
	for _, p := range l.pairs {
		for _, name := range []string{p.system, p.least} {
			if name == "" {
				continue
			}
			c, err := m.system(ctx, l, name)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", l.name, name, err)
			}
			if name == p.least && p.system != "" {
				columns[len(columns)-1].least = name
			}
			columns = append(columns, c)
		}
	}
	return columns, nil
}

// system measures one system under a load.
func (m *measurement) system(ctx context.Context, l *load, name string) (*column, error) {
	s := peer.Find(name)
	if s == nil {
		return nil, errors.New("there is no such system")
	}
	dir, err := os.MkdirTemp("", "mortise-where")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is in the system's directory for temporary files
	var server *timed
	trial := &rig.Trial{
		System: name, Specs: l.specs, Pin: l.pin, Warmup: warmup, Window: m.window, Limit: m.window + 30*time.Second,
		Server: func(pin bool) (rig.Server, error) {
			var err error
			server, err = startTimed(pin)
			return server, err
		},
		Worker: func() *exec.Cmd { return self(dir, m.also) },
	}
	o, err := trial.Run(ctx)
	if err == nil && o.Result.Failures > 0 {
		err = errors.New(o.Result.Failure)
	}
	if err != nil {
		return nil, err
	}
	did := server.spent()
	if err := agree(did, o.Server); err != nil {
		return nil, err
	}
	c := newColumn(l, s, o, did)
	if c.units == 0 {
		return nil, errors.New("the load did nothing in its window")
	}
	if err := c.read(dir, m.also); err != nil {
		return nil, err
	}
	if m.profiles != "" {
		err = keep(dir, m.profiles, l.name+" "+name)
	}
	return c, err
}

// agree returns an error if a server's look is not at the window that the rig observed. Each is taken a
// moment after the other.
func agree(did look, observed rig.Usage) error {
	var rigs float64
	for _, n := range observed.Commands {
		rigs += float64(n)
	}
	if ours := total(did.commands).calls; math.Abs(ours-rigs) > 0.02*rigs+100 {
		return fmt.Errorf("the server ran %.0f commands, but %.0f in the window: they are not of the same time", ours, rigs)
	}
	return nil
}

// self returns the command of a worker: this program.
func self(dir string, also kinds) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	cmd := exec.Command(program, "worker", also.String())
	cmd.Env = append(os.Environ(), profilesDir+"="+dir)
	return cmd
}

// newColumn returns what a trial shows without its profiles.
func newColumn(l *load, s *peer.System, o *rig.Outcome, did look) *column {
	r := o.Result
	c := &column{
		system: s.Name, seconds: r.Seconds, units: r.Acquisitions(),
		sent: map[string]spent{}, inner: map[string]spent{}, costs: map[cost]float64{}, waits: map[string][]wait{},
	}
	if l.handOvers {
		c.units = r.HandOvers
	}
	if c.units == 0 {
		return c
	}
	each := 1 / float64(c.units)
	c.elapsed, c.client = r.Seconds*1e6*each, r.CPU*1e6*each
	c.mallocs, c.bytes = float64(r.Mallocs)*each, float64(r.AllocBytes)*each
	// The server was looked at for a little less time than the window lasted.
	served := r.Seconds / o.ServerSeconds * each
	c.user, c.sys = did.user*served, did.sys*served
	c.reads, c.writes = did.reads*served, did.writes*served
	for name, sp := range did.commands {
		to := c.inner
		if sent, _ := report.Split(map[string]int64{name: 1}, s.Sends); sent > 0 {
			to = c.sent
		}
		to[name] = spent{sp.calls * served, sp.usec * served}
	}
	return c
}

// total returns the sum of commands.
func total(commands map[string]spent) (sum spent) {
	for _, s := range commands {
		sum.calls += s.calls
		sum.usec += s.usec
	}
	return sum
}

// read reads the profiles of all processes. The samples divide the CPU time that the system reports:
// it is exact, and the number of samples is not.
func (c *column) read(dir string, also kinds) error {
	for name := range strings.SplitSeq(also.String(), ",") {
		files, err := filepath.Glob(filepath.Join(dir, "*."+name))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no profile %s in %s: %w", name, dir, err)
		}
		var all []*profile.Profile
		for _, file := range files {
			p, err := readProfile(file)
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		if name == "cpu" {
			c.divide(all)
		} else {
			c.waits[name] = longest(all, float64(c.units))
		}
	}
	return nil
}

// divide divides the CPU time by the samples of all processes. A sample has two values: how often it
// was taken, and the time.
func (c *column) divide(all []*profile.Profile) {
	for _, p := range all {
		for cost, n := range costs(p, 0) {
			c.costs[cost] += n
			c.samples += n
		}
	}
	for cost, n := range c.costs {
		c.costs[cost] = n / c.samples * c.client
	}
}

func readProfile(file string) (*profile.Profile, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// keep copies the profiles in dir to another directory, under names that begin with the given one.
func keep(dir, to, name string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		name := strings.NewReplacer("/", "-", " ", "-", ":", "").Replace(name + "-" + f.Name())
		if err := os.WriteFile(filepath.Join(to, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// layerSum returns the time in a layer.
func (c *column) layerSum(in layer) (sum float64) {
	for cost, us := range c.costs {
		if cost.in == in {
			sum += us
		}
	}
	return sum
}

// sorted returns the names of commands, those with the most time first.
func sorted(commands map[string]spent) []string {
	names := slices.Sorted(maps.Keys(commands))
	slices.SortStableFunc(names, func(a, b string) int {
		switch d := commands[b].usec - commands[a].usec; {
		case d > 0:
			return 1
		case d < 0:
			return -1
		}
		return 0
	})
	return names
}
