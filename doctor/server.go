package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// server is one server of the deployment.
type server struct {
	addr string
	info map[string]string // of INFO
	err  error             // why there is no info
	conf map[string]string // of CONFIG GET
	cerr error             // why there is none

	embedded bool // it is that of package memredis
}

// settings are what CONFIG GET is asked for. None of them is secret.
var settings = []string{
	"save", "appendonly", "appendfsync", "timeout", "tcp-keepalive", "notify-keyspace-events", "client-output-buffer-limit",
	"maxclients", "min-replicas-to-write", "min-replicas-max-lag", "stop-writes-on-bgsave-error",
}

// errNoCommands is why nothing is known about the servers of a driver that cannot ask them.
var errNoCommands = errors.New("this driver sends no commands but scripts")

// nothing is a script that does nothing.
var nothing = driver.NewScript("doctor", "return 1")

// eval runs a script on the server of a key; on any if it is empty.
func (e *exam) eval(ctx context.Context, s *driver.Script, key string, args ...string) (driver.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	call := driver.Call{Script: s, Args: args}
	if key != "" {
		call.Keys = []string{key}
	}
	return e.d.Eval(ctx, call)
}

// command sends a command to a server.
func (e *exam) command(ctx context.Context, addr string, words ...string) (driver.Value, error) {
	c, ok := e.d.(driver.Commander)
	if !ok {
		return driver.Value{}, &driver.Error{Class: driver.Other, Err: errNoCommands}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.Command(ctx, addr, words...)
}

// readServers reads what the servers report about themselves.
func (e *exam) readServers(ctx context.Context) {
	c, ok := e.d.(driver.Commander)
	if !ok {
		e.servers = []*server{{err: errNoCommands, cerr: errNoCommands}}
		return
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	addrs, err := c.Servers(limited)
	cancel()
	if err != nil {
		e.servers = []*server{{err: err, cerr: err}}
		return
	}
	e.servers = make([]*server, len(addrs))
	var asked sync.WaitGroup
	for i, addr := range addrs {
		asked.Go(func() { e.servers[i] = e.read(ctx, addr) })
	}
	asked.Wait()
	if v, err := e.command(ctx, addrs[0], "ACL", "WHOAMI"); err == nil {
		e.user = v.Str()
	}
}

// read reads what one server reports about itself.
func (e *exam) read(ctx context.Context, addr string) *server {
	s := &server{addr: addr}
	v, err := e.command(ctx, addr, "INFO")
	if s.err = err; err == nil {
		if s.info = fields(v.Str()); s.info["redis_version"] == "" {
			s.info, s.err = nil, errors.New("the server does not tell what it is")
			v, err := e.command(ctx, addr, "INFO", "server")
			s.embedded = err == nil && fields(v.Str())["server_name"] == "mortise"
		}
	}
	s.conf, s.cerr = e.settings(ctx, addr)
	return s
}

// settings reads settings, with one command if the server knows how, as from Redis 7.0 on.
func (e *exam) settings(ctx context.Context, addr string) (map[string]string, error) {
	conf := make(map[string]string)
	err := e.addSettings(ctx, addr, conf, settings)
	if err == nil || classOf(err) != driver.Other {
		return conf, err
	}
	for _, name := range settings {
		if err := e.addSettings(ctx, addr, conf, []string{name}); err != nil {
			return nil, err
		}
	}
	return conf, nil
}

func (e *exam) addSettings(ctx context.Context, addr string, conf map[string]string, names []string) error {
	v, err := e.command(ctx, addr, append([]string{"CONFIG", "GET"}, names...)...)
	for i := 0; i+1 < v.Len(); i += 2 {
		conf[v.At(i).Str()] = v.At(i + 1).Str()
	}
	return err
}

// fields reads lines of the form name:value.
func fields(text string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			all[name] = value
		}
	}
	return all
}

// number returns a number that a server reports; 0 if it reports none.
func (s *server) number(name string) int64 {
	n, _ := strconv.ParseInt(s.info[name], 10, 64)
	return n
}

// set returns a setting that is a number; 0 if it is none.
func (s *server) set(name string) int64 {
	n, _ := strconv.ParseInt(s.conf[name], 10, 64)
	return n
}

// master reports whether the server is a master.
func (s *server) master() bool { return s.info["role"] == "master" }

// source is what a check needs to know about a server.
type source struct {
	command string // that a user must be allowed to run
	err     func(*server) error
}

var (
	ofInfo   = source{"info", func(s *server) error { return s.err }}
	ofConfig = source{"config|get", func(s *server) error { return s.cerr }}
)

// each examines each server, and reports those that are not in order; what is the same of several servers
// once. Of those that are in order it tells once, too.
func (e *exam) each(id string, group Group, from source, look func(*server) Finding) {
	var fine *Finding
	var all []*Finding
	for _, s := range e.servers {
		if err := from.err(s); err != nil {
			f := e.unknown(id, group, err, from.command)
			if len(e.servers) > 1 {
				f.Server = s.addr
			}
			e.addOnce(f)
			continue
		}
		f := look(s)
		f.ID, f.Group, f.Server = id, group, s.addr
		switch i := slices.IndexFunc(all, func(o *Finding) bool { return o.Found == f.Found && o.Severity == f.Severity }); {
		case f.Severity == "":
		case f.Severity == OK:
			f.Server = ""
			fine = &f
		case i >= 0:
			all[i].Server += ", " + f.Server
			if f.Command != all[i].Command {
				all[i].Command += "\n" + f.Command
			}
		default:
			all = append(all, &f)
		}
	}
	for _, f := range all {
		if len(e.servers) == 1 {
			f.Server = ""
		}
		e.add(*f)
	}
	if fine != nil {
		e.add(*fine)
	}
}

// addOnce adds a finding unless there is the same already.
func (e *exam) addOnce(f Finding) {
	for _, other := range e.report.Findings {
		if other.ID == f.ID && other.Found == f.Found {
			return
		}
	}
	e.add(f)
}

// mayNot reports whether an error says that the user lacks a right.
func mayNot(err error) bool {
	var failed *driver.Error
	return errors.As(err, &failed) && failed.Class == driver.Denied && !strings.HasPrefix(failed.Reply, "NOAUTH") && !strings.HasPrefix(failed.Reply, "WRONGPASS")
}

// unknown returns the finding for what could not be examined, for want of the right to commands.
func (e *exam) unknown(id string, group Group, err error, commands ...string) Finding {
	f := Finding{ID: id, Group: group, Severity: Unknown, Found: "it could not be examined: " + said(err)}
	var failed *driver.Error
	switch {
	case errors.As(err, &failed) && strings.HasPrefix(failed.Reply, "ERR unknown "):
		f.Found = "it could not be examined: the server does not know " + strings.ReplaceAll(strings.Join(commands, ", "), "|", " ")
		return f
	case !mayNot(err):
		return f
	}
	f.Found = "it could not be examined: the user has no right to " + strings.ReplaceAll(strings.Join(commands, ", "), "|", " ")
	f.Do = "Allow it, or examine with another user."
	f.Command = e.setuser("+" + strings.Join(commands, " +"))
	return f
}

// withoutRights returns the finding for keys that a user may not look at who may not use a kind of lock.
func (e *exam) withoutRights(id string, group Group, err error, kind Kind) Finding {
	f := Finding{ID: id, Group: group, Severity: Unknown, Found: "it could not be examined: " + said(err)}
	if mayNot(err) {
		f.Found = "it could not be examined: the user lacks the rights of --kind " + string(kind)
		f.Do, f.Command = "Give it those rights, or examine with another user.", e.acl(kind)
	}
	return f
}

// mortise returns a line that runs the command mortise; words that need it are quoted already.
func (e *exam) mortise(command string) string {
	line := cmp.Or(e.o.Mortise, "mortise")
	if e.o.Prefix != "" {
		line += " --prefix " + word(e.o.Prefix)
	}
	return line + " " + command
}

// acl returns a line that prints what adds the rights of kinds to those of the user.
func (e *exam) acl(kinds ...Kind) string {
	var names []string
	for _, kind := range kinds {
		names = append(names, string(kind))
	}
	line := "acl --add --user " + word(e.userName()) + " --kind " + strings.Join(names, ",")
	if e.topology.Cluster {
		line += " --cluster"
	}
	return e.mortise(line)
}

// cli returns a line that runs a command with redis-cli; words that need it are quoted already. It is for the server with that
// address, or for the first one if that is empty.
func (e *exam) cli(addr, command string) string {
	if addr == "" && len(e.servers) > 0 {
		addr = e.servers[0].addr
	}
	return e.o.RedisCLI(addr) + " " + command
}

// setuser returns the line that adds rights to those of the user, on all servers: a rule is of one server. The user itself may not
// do that.
func (e *exam) setuser(rights string) string {
	addr := e.servers[0].addr
	command := e.o.AdminCLI(addr)
	if e.topology.Cluster {
		command += " --cluster call " + word(addr)
	}
	command += " acl setuser " + word(e.userName())
	for w := range strings.FieldsSeq(rights) {
		command += " " + word(w)
	}
	return command
}

func redisCLI(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "redis-cli"
	}
	return "redis-cli -h " + word(host) + " -p " + word(port)
}

// short returns a duration as people read it.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + short(-d)
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// size returns a number of bytes as people read it.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n < 1<<10:
		return several(int(n), "byte")
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
