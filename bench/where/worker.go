package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/mortise-go/mortise/bench/peer"
	"github.com/mortise-go/mortise/bench/rig"
)

// kinds are the profiles that are taken in addition to that of the CPU.
type kinds struct{ mutex, block bool }

// String returns the names of the profiles, as they are given to a worker.
func (k kinds) String() string {
	names := []string{"cpu"}
	if k.mutex {
		names = append(names, "mutex")
	}
	if k.block {
		names = append(names, "block")
	}
	return strings.Join(names, ",")
}

// profilesDir is the environment variable with the directory for the profiles of a worker.
const profilesDir = "MORTISE_WHERE_PROFILES"

// work is a worker of the rig whose window is profiled. The rig's commands come one a line, and each
// is answered before the next one, so a profile can begin and end between two lines.
func work(ctx context.Context, in io.Reader, out io.Writer, names string) error {
	p := &profiler{dir: os.Getenv(profilesDir), names: strings.Split(names, ",")}
	commands := &cues{in: bufio.NewReader(in), before: func(line []byte) error {
		switch {
		case bytes.Contains(line, []byte(`"do":"begin"`)):
			return p.begin()
		case bytes.Contains(line, []byte(`"do":"end"`)):
			return p.end()
		}
		return nil
	}}
	return rig.Serve(ctx, commands, out, func(name string) rig.Open {
		if s := peer.Find(name); s != nil {
			return s.Open
		}
		return nil
	})
}

// cues reads line by line, and calls before with each line that it is about to return.
type cues struct {
	in     *bufio.Reader
	before func(line []byte) error
	rest   []byte
}

func (c *cues) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if err := c.before(line); err != nil {
			return 0, err
		}
		c.rest = line
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// rate is how often a second of CPU time is sampled. Linux samples at most once per tick, of which
// most systems have 250 a second.
const rate = 250

// profiler takes the profiles of this process.
type profiler struct {
	dir   string
	names []string
	cpu   *os.File
}

func (p *profiler) begin() (err error) {
	if p.cpu, err = p.create("cpu"); err != nil {
		return err
	}
	for _, name := range p.names {
		switch name {
		case "mutex":
			runtime.SetMutexProfileFraction(1)
		case "block":
			runtime.SetBlockProfileRate(1)
		}
	}
	// StartCPUProfile always wants another rate. It keeps this one, and complains on stderr, which
	// the rig shows only if the worker fails.
	runtime.SetCPUProfileRate(rate)
	return pprof.StartCPUProfile(p.cpu)
}

func (p *profiler) end() error {
	pprof.StopCPUProfile()
	err := p.cpu.Close()
	for _, name := range p.names {
		if name != "cpu" {
			err = errors.Join(err, p.write(name))
		}
	}
	return err
}

// write writes what one of Go's profiles has so far.
func (p *profiler) write(name string) error {
	f, err := p.create(name)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
}

func (p *profiler) create(name string) (*os.File, error) {
	return os.Create(filepath.Join(p.dir, fmt.Sprintf("%d.%s", os.Getpid(), name)))
}
