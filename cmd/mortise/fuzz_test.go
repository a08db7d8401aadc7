package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/resp"
	"github.com/mortise-go/mortise/memredis"
)

// fuzzed is a server, and what a command printed that ran with it in this process.
type fuzzed struct {
	server         *memredis.Server
	closed         string // the URL of one that refuses everything: a command that waits for Redis does not wait for that
	driver         driver.Driver
	stdout, stderr bytes.Buffer
}

func newFuzzed(f *testing.F) *fuzzed {
	s, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	d := s.Driver()
	f.Cleanup(func() { _ = d.Close() })
	return &fuzzed{server: s, closed: "redis://" + refusing(f), driver: d}
}

// refusing returns the address of a server that asks for a password.
func refusing(f *testing.F) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for commands := bufio.NewReader(c); ; {
					if _, err := resp.Read(commands); err != nil {
						return
					}
					fmt.Fprint(c, "-NOAUTH Authentication required.\r\n")
				}
			}()
		}
	}()
	return l.Addr().String()
}

// run runs a command with the Redis at url, whatever its arguments say, and returns its exit code.
func (z *fuzzed) run(t *testing.T, url string, env map[string]string, args ...string) int {
	t.Helper()
	z.stdout.Reset()
	z.stderr.Reset()
	// Inside another run, none of its own looks for its guard before it has reached Redis.
	getenv := func(key string) string { return env[key] }
	a := &app{stdout: newOutput(&z.stdout), stderr: &z.stderr, getenv: getenv}
	a.aimed.Do(func() { a.aim = target{url: url, from: "the test"} })
	code := a.main(args)
	z.check(t, args, code)
	return code
}

// unreadable is what the embedded server says of some patterns that Redis has.
const unreadable = "the embedded Redis cannot read this pattern"

var documented = regexp.MustCompile(`(?m)^ +(\d+)  `)

// check checks what any command prints and exits with.
func (z *fuzzed) check(t *testing.T, args []string, code int) {
	t.Helper()
	stdout, stderr := z.stdout.String(), z.stderr.String()
	if code == exitBug && !strings.Contains(stderr, unreadable) || code < 0 {
		t.Errorf("%q exits with %d: %s", args, code, stderr)
	}
	for name, text := range map[string]string{"stdout": stdout, "stderr": stderr} {
		bad := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
		if at := strings.IndexFunc(text, bad); at >= 0 || !utf8.ValidString(text) {
			t.Errorf("%q prints to %s what can change a terminal: %q", args, name, text)
		}
	}
	before := args
	if i := slices.Index(args, "--"); i >= 0 {
		before = args[:i]
	}
	if code == exitUsage && stdout != "" {
		t.Errorf("%q fails with a usage error, and prints %q", args, stdout)
	}
	if code != 0 && code != exitOther && stderr != "" {
		wantFailure(t, args, slices.Contains(before, "--json"), code, stderr)
	}
}

// wantFailure checks the form of an error.
func wantFailure(t *testing.T, args []string, asJSON bool, code int, stderr string) {
	t.Helper()
	if !asJSON {
		if !strings.HasPrefix(stderr, "mortise: ") {
			t.Errorf("%q exits with %d and %q", args, code, stderr)
		}
		return
	}
	var f struct {
		Error failure `json:"error"`
	}
	if err := json.Unmarshal([]byte(lastLine(stderr)), &f); err != nil || f.Error.Code != code || f.Error.Message == "" || f.Error.Kind == "" {
		t.Errorf("%q exits with %d and the error %q, which is %+v, %v", args, code, stderr, f, err)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// keys returns all keys of the server.
func (z *fuzzed) keys(t *testing.T) (all []string) {
	t.Helper()
	err := z.driver.(driver.Scanner).Scan(t.Context(), "*", func(keys []string) error {
		all = append(all, keys...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var clear = driver.NewScript("clear", `return redis.call('flushall').ok`)

func (z *fuzzed) eval(t *testing.T, s *driver.Script, keys, args []string) {
	t.Helper()
	if _, err := z.driver.Eval(t.Context(), driver.Call{Script: s, Keys: keys, Args: args}); err != nil {
		t.Fatal(err)
	}
}

// goOn are the commands that go on until they are interrupted.
var goOn = []string{"demo", "server", "bench", "serve", "watch", "top"}

// stubbed replaces the commands that go on: only their arguments are looked at.
func stubbed(a *app) *cobra.Command {
	root := rootCommand(a)
	for _, c := range root.Commands() {
		if slices.Contains(goOn, c.Name()) {
			c.RunE = func(*cobra.Command, []string) error { return nil }
		}
	}
	return root
}

// look only parses arguments.
func (z *fuzzed) look(t *testing.T, args []string) {
	a := &app{stdout: newOutput(&z.stdout), stderr: &z.stderr, getenv: func(string) string { return "" }, args: args}
	root := stubbed(a)
	root.SetArgs(args)
	root.SetOut(&z.stdout)
	if err := root.Execute(); err != nil && exitCode(err) != exitUsage {
		t.Errorf("%q: %v", args, err)
	}
}

// wantDocumented checks that the help of a command has an exit code.
func (z *fuzzed) wantDocumented(t *testing.T, args []string, code int) {
	t.Helper()
	line, stderr := strings.Join(args, " "), z.stderr.String()
	cmd, _, err := rootCommand(&app{getenv: func(string) string { return "" }, stdout: newOutput(&z.stdout)}).Find(args)
	if err != nil || strings.Contains(stderr, unreadable) || strings.Contains(line, "-E") || strings.Contains(line, "--conflict") {
		return
	}
	codes := []string{"0", strconv.Itoa(exitUsage)}
	for _, c := range documented.FindAllStringSubmatch(cmd.Long, -1) {
		codes = append(codes, c[1])
	}
	if !slices.Contains(codes, strconv.Itoa(code)) {
		t.Errorf("%q exits with %d, and its help has %v: %s", args, code, codes, stderr)
	}
}

// Whatever the arguments are, a command does not panic, exits with a code that its help has, and
// writes nothing if they are wrong.
func FuzzArguments(f *testing.F) {
	z := newFuzzed(f)
	for _, seed := range []string{
		"", "--help", "help run", "version --json", "run job -- true", "run -n -w 1 job -- true", "run --sem --permits 3 --limit 2 job -- true",
		"run --ttl 0 job -- true", "run --max-hold 9223372036 --min-hold 1 job -c true", "run --multi a,b,\"c job -- true", "run -E 256 job -- true",
		"run --fair --read job -- true", "run --kill-after 100000h --signal KILL --on-lost x job -- true", "elect job --value x --keep -- true",
		"sem job set 3", "sem job add -- -9223372036854775808", "sem job add 2147483647", "sem job show --json", "latch job set 0", "latch job set 9223372036854775807",
		"latch job down", "latch job wait -w 0", "latch job delete --json", "show job", "show -q job --json", "ls --limit 0", "ls [", "ls * --json", "unlock job",
		"unlock job --owner x", "unlock --force --yes job", "tokens --idle 1h", "tokens --idle 0 --expire 1ms --yes", "tokens --idle 2562047h --json", "doctor --keys -1", "doctor --fix fair-queue-dead,lock-without-ttl --accept x --json",
		"doctor --kind all --fix x", "acl", "acl --kind look --shell --user \x1b", "acl --kind fair,records --json --cluster", "--prefix a*b acl --kind tokens",
		"--prefix redisson_ show x", "--prefix {a show b}", "show \x1b[2J", "show redis://:secret@host", "completion bash", "__complete show ", "__complete", "__completeNoDesc", "__complete run -", "__complete \x00", "sem  set 1", "rnu job", "show -x", "--redis", "unlock -- -x",
		"demo --workers x", "server --addr 0.0.0.0:1", "serve --demo", "watch *", "top", "bench --time 1h --concurrency -1", "show \xff", "show a\u202eb", "ls \n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var args []string
		if line != "" {
			args = strings.Split(line, " ")
		}
		has := func(names ...string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(args, name) })
		}
		if has(goOn...) {
			z.look(t, args)
			return
		}
		url := "redis://" + z.server.Addr()
		if has("run", "elect", "wait", "completion") { // these would wait, or run something
			url = z.closed
		}
		code := z.run(t, url, map[string]string{envHeld: "1"}, args...)
		z.wantDocumented(t, args, code)
		if keys := z.keys(t); len(keys) > 0 {
			if code == exitUsage {
				t.Errorf("%q fails with a usage error, and writes %q", args, keys)
			}
			z.eval(t, clear, []string{"x"}, nil)
		}
	})
}

// stored writes a key of some type; values come from the arguments.
var stored = driver.NewScript("stored", `
local kind, n = ARGV[1], tonumber(ARGV[2])
redis.call('del', KEYS[1])
for i = 1, n do
	local field, value = ARGV[3 + (i * 2 - 2) % (#ARGV - 2)], ARGV[3 + (i * 2 - 1) % (#ARGV - 2)]
	if i * 2 > #ARGV - 2 then field = field .. i end
	if kind == 'hash' then redis.call('hset', KEYS[1], field, value)
	elseif kind == 'list' then redis.call('rpush', KEYS[1], field)
	elseif kind == 'set' then redis.call('sadd', KEYS[1], field)
	elseif kind == 'zset' then redis.call('zadd', KEYS[1], tonumber(value) or 0, field)
	else redis.call('set', KEYS[1], value) end
end
return 1`)

// many returns the size of what is stored: sometimes more than is ever listed.
func many(n uint16) string {
	if n > 60_000 {
		return "1100"
	}
	return strconv.Itoa(int(n%20) + 1)
}

// Whatever lies in Redis, a command that shows it prints nothing that can change a terminal, and
// JSON that is valid.
func FuzzStoredShown(f *testing.F) {
	z := newFuzzed(f)
	const owner = "0b5f3d1c-7c0e-8d2e-9a57-1f0e6a0c9b11:1"
	for _, seed := range [][5]string{
		{"h", owner, "1", "x", "2"}, {"hl", "mode", "read", owner, "-1"}, {"hs", "mode", "election", "value", "\x1b[2J"}, {"s", "x", "nan", "", ""},
		{"s", "x", "-9223372036854775808", "", ""}, {"sz", owner, "1e308", "\xff", "-1e308"}, {"z", "a", "inf", "b", "nan"}, {"h", "mode", "barrier", "parties", "-1"},
		{"hlzhs", owner + ":write", "99999999999999999999", "mode", "write"}, {"h", "a", owner, "a:" + owner + ":expire_time", "9999999999999999"}, {"l", "\u202e", "", "", ""},
	} {
		f.Add(seed[0], uint16(1), seed[1], seed[2], seed[3], seed[4])
		f.Add(seed[0], uint16(65000), seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, kinds string, n uint16, a, b, c, d string) {
		const name = "job"
		keys := []string{name, keyspace.FairQueue(name), keyspace.FairDeadlines(name), keyspace.Token(name), keyspace.PermitExpiries(name), keyspace.Claims(name), a}
		for i, key := range keys {
			if i < len(kinds) && key != "" {
				kind := map[byte]string{'h': "hash", 'l': "list", 'e': "set", 'z': "zset"}[kinds[i]]
				z.eval(t, stored, []string{key}, []string{kind, many(n), a, b, c, d})
			}
		}
		defer z.eval(t, clear, []string{"x"}, nil)
		url := "redis://" + z.server.Addr()
		for _, args := range [][]string{
			{"show", name}, {"show", name, "--json"}, {"show", "-q", name}, {"ls"}, {"ls", "--json"}, {"sem", name, "show"}, {"sem", name, "show", "--json"},
			{"latch", name, "show"}, {"latch", name, "show", "--json"}, {"unlock", name}, {"tokens", "--idle", "0", "--json"}, {"tokens", "--idle", "1h"},
		} {
			code := z.run(t, url, nil, args...)
			if code == 0 && slices.Contains(args, "--json") && !json.Valid(z.stdout.Bytes()) {
				t.Errorf("%q prints what is no JSON: %.300q", args, z.stdout.String())
			}
		}
	})
}

// Whatever the environment contains, a command does not panic, and the password that it gives does
// not show.
func FuzzEnvironment(f *testing.F) {
	z := newFuzzed(f)
	f.Add("redis://user:x@host:1/0", "p@ss", "app:", "lock a:1 0 app:job", "1")
	f.Add("redis://host", "a b\n", "{", "permit a,b,c 0 job\nlead x 0 job", "1")
	f.Add("unix:///s", "%", "redisson_", "\n\n lock lock lock job", "")
	f.Add("host", "#", "\x1b", "fence a 9 job\nread a 0 job\nwrite b 0 job", "x")
	f.Fuzz(func(t *testing.T, url, password, prefix, holds, held string) {
		const mark = "s3cr"
		for _, part := range []string{url, password, prefix, holds, held} {
			if strings.Contains(strings.ToLower(part), mark) || strings.ContainsRune(part, 0) {
				return
			}
		}
		env := map[string]string{envRedis: url, envPassword: mark + password, envPrefix: prefix, envHolds: holds, envHeld: held}
		a := &app{stdout: newOutput(&z.stdout), stderr: &z.stderr, getenv: func(key string) string { return env[key] }}
		z.stderr.Reset()
		to := a.target()
		if strings.Contains(to.url, mark) && hasPassword(url) && !strings.Contains(url, mark) {
			t.Errorf("the password of the URL %q is replaced: %q", url, to.url)
		}
		for _, phase := range []string{"resolve", "connect", "tls", "auth"} {
			if hint := a.connectHint(connect.Phase(phase), "", nil); strings.Contains(strings.ToLower(hint), mark) {
				t.Errorf("the hint for %q shows the password: %s", url, hint)
			}
		}
		for _, name := range []string{"job", "a"} {
			for _, o := range a.outers(name) {
				for _, kind := range []claimKind{claimLock, claimFence, claimRead, claimWrite, claimPermit, claimLead} {
					if covers, err := o.covers(claim{kind: kind, name: name, permits: 2}); covers && err != nil {
						t.Errorf("%v covers a %s, and does not: %v", o, kind, err)
					}
				}
			}
		}
		z.run(t, "redis://"+z.server.Addr(), env, "show", "job")
		z.run(t, "redis://"+z.server.Addr(), env, "ls", "--json")
		if text := z.stdout.String() + z.stderr.String(); strings.Contains(strings.ToLower(text), mark) {
			t.Errorf("the password shows: %s", text)
		}
	})
}
