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
// is answered before the next one: the profile begins before the command that opens the window is read,
// and ends before the answer that has the figures of the window is written, so neither is in the window.
func work(ctx context.Context, in io.Reader, out io.Writer, names string) error {
	p := &profiler{dir: os.Getenv(profilesDir), names: strings.Split(names, ",")}
	commands := &lines{in: bufio.NewReader(in), cue: cue{`"do":"begin"`, p.begin}}
	answers := &answers{out: out, cue: cue{`"is":"ended"`, p.end}}
	return rig.Serve(ctx, commands, answers, func(name string) rig.Open {
		if s := peer.Find(name); s != nil {
			return s.Open
		}
		return nil
	})
}

// cue calls do for a line that contains the text.
type cue struct {
	text string
	do   func() error
}

func (c cue) see(line []byte) error {
	if bytes.Contains(line, []byte(c.text)) {
		return c.do()
	}
	return nil
}

// lines reads line by line, and shows the cue each line that it is about to return.
type lines struct {
	in   *bufio.Reader
	cue  cue
	rest []byte
}

func (l *lines) Read(b []byte) (int, error) {
	if len(l.rest) == 0 {
		line, err := l.in.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if err := l.cue.see(line); err != nil {
			return 0, err
		}
		l.rest = line
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// answers shows the cue each line that it is about to write. A line comes in one Write.
type answers struct {
	out io.Writer
	cue cue
}

func (a *answers) Write(line []byte) (int, error) {
	if err := a.cue.see(line); err != nil {
		return 0, err
	}
	return a.out.Write(line)
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
