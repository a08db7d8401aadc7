package memredis

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/mortise-go/mortise/driver"
	lua "github.com/yuin/gopher-lua"
)

// scripts runs the scripts of drivers in one Lua state that it keeps, as Redis does. Miniredis makes a new state for
// each script of a connection, which takes longer than most scripts. Miniredis must be locked meanwhile.
type scripts struct {
	state  *lua.LState
	server *server.Server
	peer   *server.Peer  // runs the commands of scripts
	out    *bytes.Buffer // what the peer writes
	in     *bufio.Reader // reads out
}

// newScripts returns scripts whose commands run with the context inside, see [contextOfScripts].
func newScripts(srv *server.Server, inside any) *scripts {
	s := &scripts{state: lua.NewState(lua.Options{SkipOpenLibs: true}), server: srv, out: new(bytes.Buffer)}
	s.peer, s.in = server.NewPeer(bufio.NewWriter(s.out)), bufio.NewReader(s.out)
	s.peer.Ctx = inside
	l := s.state
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	for _, name := range []string{"dofile", "loadfile", "module", "newproxy", "print", "require"} {
		l.SetGlobal(name, lua.LNil)
	}
	l.GetGlobal("math").(*lua.LTable).RawSetString("huge", lua.LNumber(math.Inf(1)))
	l.SetGlobal("tonumber", l.NewFunction(tonumber(l.GetGlobal("tonumber").(*lua.LFunction).GFunction)))
	l.SetGlobal("redis", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call":         func(l *lua.LState) int { return s.command(l, true) },
		"pcall":        func(l *lua.LState) int { return s.command(l, false) },
		"error_reply":  func(l *lua.LState) int { return reply(l, "err", l.CheckString(1)) },
		"status_reply": func(l *lua.LState) int { return reply(l, "ok", l.CheckString(1)) },
	}))
	l.SetMetatable(l.G.Global, l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"__index": func(l *lua.LState) int {
			l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.ToString(2))
			return 0
		},
		"__newindex": func(l *lua.LState) int {
			l.RaiseError("Attempt to modify a readonly table")
			return 0
		},
	}))
	return s
}

// tonumber returns Lua's function, which reads a text as C does. The given one does not know exponents, nor infinity.
func tonumber(given lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		if text, ok := l.Get(1).(lua.LString); ok && l.OptInt(2, 10) == 10 {
			digits := strings.ToLower(strings.TrimSpace(string(text)))
			if strings.Contains(digits, "0x") && !strings.Contains(digits, "p") {
				digits += "p0" // without it, it is none for Go
			}
			n, err := strconv.ParseFloat(digits, 64)
			if err == nil || errors.Is(err, strconv.ErrRange) {
				l.Push(lua.LNumber(n))
			} else {
				l.Push(lua.LNil)
			}
			return 1
		}
		return given(l)
	}
}

// compiled are the scripts that this process has run, by source.
var compiled sync.Map // string -> *lua.FunctionProto

func (s *scripts) load(source string) (*lua.LFunction, error) {
	if proto, known := compiled.Load(source); known {
		return s.state.NewFunctionFromProto(proto.(*lua.FunctionProto)), nil
	}
	f, err := s.state.LoadString(source)
	if err != nil {
		return nil, fmt.Errorf("ERR Error compiling script (new function): %w", err)
	}
	compiled.Store(source, f.Proto)
	return f, nil
}

// run runs a script to its end, and returns its reply.
func (s *scripts) run(call driver.Call) (driver.Value, error) {
	l := s.state
	defer l.SetTop(0)
	f, err := s.load(call.Script.Source())
	if err != nil {
		return driver.Value{}, driver.ReplyError(err, err.Error())
	}
	l.G.Global.RawSetString("KEYS", s.list(call.Keys))
	l.G.Global.RawSetString("ARGV", s.list(call.Args))
	l.Push(f)
	if err = l.PCall(0, 1, nil); err == nil {
		var v driver.Value
		if v, err = value(l.Get(-1), 0); err == nil {
			return v, nil
		}
	} else if raised, ok := errors.AsType[*lua.ApiError](err); ok {
		err = raisedError(raised)
	}
	return driver.Value{}, driver.ReplyError(err, err.Error())
}

// raisedError returns the error reply for what a script has raised: the error of a command as it is, and any other with the
// code ERR.
func raisedError(raised *lua.ApiError) error {
	if t, ok := raised.Object.(*lua.LTable); ok {
		return errors.New(lua.LVAsString(t.RawGetString("err")))
	}
	return errors.New("ERR " + raised.Object.String())
}

func (s *scripts) list(items []string) *lua.LTable {
	t := s.state.CreateTable(len(items), 0)
	for _, item := range items {
		t.Append(lua.LString(item))
	}
	return t
}

// command runs a command for a script. An error is raised, or returned as a table.
func (s *scripts) command(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	if len(args) == 0 {
		l.RaiseError("Please specify at least one argument for this redis.call()")
	}
	for i := range args {
		switch arg := l.Get(i + 1).(type) {
		case lua.LString, lua.LNumber:
			args[i] = arg.String()
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	if strings.EqualFold(args[0], "select") { // it would be for all scripts after this one
		l.RaiseError("This Redis command is not allowed from script")
	}
	s.out.Reset()
	s.in.Reset(s.out)
	s.server.Dispatch(s.peer, args)
	s.peer.Flush()
	v, err := server.ParseReply(s.in)
	if err == nil {
		l.Push(converted(l, v))
		return 1
	}
	reply(l, "err", err.Error())
	if raise {
		l.Error(l.Get(-1), 0)
	}
	return 1
}

// reply pushes a table that stands for a status, or for an error.
func reply(l *lua.LState, field, text string) int {
	t := l.NewTable()
	t.RawSetString(field, lua.LString(text))
	l.Push(t)
	return 1
}

// converted returns the reply to a command as Redis gives it to a script.
func converted(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case int:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case server.Simple:
		reply(l, "ok", string(v))
		defer l.Pop(1)
		return l.Get(-1)
	case []any:
		t := l.CreateTable(len(v), 0)
		for i, item := range v {
			t.RawSetInt(i+1, converted(l, item))
		}
		return t
	}
	return lua.LFalse // a nil
}

// deepest is how deep a reply may be nested. A table that contains itself has no end.
const deepest = 1000

// value returns what a script returns as Redis replies it, at that depth of the reply.
func value(v lua.LValue, depth int) (driver.Value, error) {
	switch v := v.(type) {
	case lua.LNumber:
		return driver.IntValue(int64(v)), nil
	case lua.LString:
		return driver.StringValue(string(v)), nil
	case lua.LBool:
		if v {
			return driver.IntValue(1), nil
		}
	case *lua.LTable:
		return tableValue(v, depth)
	}
	return driver.Value{}, nil
}

func tableValue(t *lua.LTable, depth int) (driver.Value, error) {
	if depth == deepest {
		return driver.Value{}, errors.New("ERR reached lua stack limit")
	}
	if text, ok := t.RawGetString("err").(lua.LString); ok {
		return driver.Value{}, errors.New(string(text))
	}
	if text, ok := t.RawGetString("ok").(lua.LString); ok {
		return driver.StringValue(string(text)), nil
	}
	var items []driver.Value
	for i := 1; t.RawGetInt(i) != lua.LNil; i++ {
		item, err := value(t.RawGetInt(i), depth+1)
		if err != nil {
			return driver.Value{}, err
		}
		items = append(items, item)
	}
	return driver.ArrayValue(items), nil
}

// contextOfScripts returns the context with which commands of scripts run, so that they do not lock miniredis again.
// Nothing but such a command shows it. The server refuses all other commands meanwhile, and until it gets another hook.
func contextOfScripts(srv *server.Server) (inside any) {
	self, word := server.NewPeer(bufio.NewWriter(io.Discard)), rand.Text()
	srv.SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		switch {
		case c == self:
			return false
		case command == "ECHO" && len(args) == 1 && args[0] == word:
			inside = c.Ctx
		default:
			c.WriteError("LOADING the embedded Redis is starting")
		}
		return true
	})
	srv.Dispatch(self, []string{"EVAL", "redis.pcall('echo', ARGV[1])", "0", word})
	return inside
}
