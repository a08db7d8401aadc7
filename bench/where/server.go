package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/redistest"
)

// timed is a redis-server that also measures the time of each command.
type timed struct {
	rig.Server
	conn  *redistest.Conn
	looks []look // one for each call of Usage
}

// look is what a server has done so far. Its CPU time is in µs.
type look struct {
	user, sys     float64
	reads, writes float64 // system calls for the sockets of clients
	commands      map[string]spent
}

// spent is how often a command ran, and for how long. The server takes that time by the clock, so it
// contains what other processes ran meanwhile.
type spent struct{ calls, usec float64 }

// startTimed starts a server.
func startTimed(pin bool) (*timed, error) {
	s, err := rig.StartRedis(pin)
	if err != nil {
		return nil, err
	}
	conn, err := redistest.Dial(s.Addr(), "", "")
	if err != nil {
		s.Stop()
		return nil, err
	}
	return &timed{Server: s, conn: conn}, nil
}

// Usage implements [rig.Server].
func (t *timed) Usage() (rig.Usage, error) {
	u, err := t.Server.Usage()
	if err != nil {
		return u, err
	}
	text, err := t.conn.Do("INFO", "everything")
	if err != nil {
		return u, fmt.Errorf("look at redis-server: %w", err)
	}
	t.looks = append(t.looks, parse(fmt.Sprint(text)))
	return u, nil
}

// Stop implements [rig.Server].
func (t *timed) Stop() {
	t.conn.Close()
	t.Server.Stop()
}

// spent returns what the server did in the window, between its last two looks: a trial also looks before
// the load.
func (t *timed) spent() look {
	first, last := t.looks[len(t.looks)-2], t.looks[len(t.looks)-1]
	d := look{
		user: last.user - first.user, sys: last.sys - first.sys,
		reads: last.reads - first.reads, writes: last.writes - first.writes,
		commands: map[string]spent{},
	}
	for name, s := range last.commands {
		before := first.commands[name]
		if s.calls -= before.calls; s.calls > 0 {
			s.usec -= before.usec
			d.commands[name] = s
		}
	}
	return d
}

// parse parses a reply of INFO.
func parse(text string) look {
	l := look{commands: map[string]spent{}}
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name, command := strings.CutPrefix(field, "cmdstat_"); {
		case command && name != "info":
			var s spent
			if n, _ := fmt.Sscanf(value, "calls=%g,usec=%g,", &s.calls, &s.usec); n == 2 {
				l.commands[name] = s
			}
		case field == "used_cpu_user":
			l.user = number(value) * 1e6
		case field == "used_cpu_sys":
			l.sys = number(value) * 1e6
		case field == "total_reads_processed":
			l.reads = number(value)
		case field == "total_writes_processed":
			l.writes = number(value)
		}
	}
	return l
}

// number parses a number. What a server does not report counts as nothing.
func number(s string) float64 {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return n
}
