//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// agent is a Java process that works with Redisson's locks on command. Its
// methods are safe for concurrent use.
type agent struct {
	*process
	identity identity
	stdin    io.WriteCloser

	mu      sync.Mutex
	last    int                    // guarded by mu
	waiting map[string]chan answer // by id of the command; guarded by mu
	ended   bool                   // no answer will come any more; guarded by mu
}

// agentOptions are the start arguments of an agent.
type agentOptions struct {
	Address  string        // host:port of the server, or of any node of the cluster
	Cluster  bool          // connect as a cluster client
	Sharded  string        // "on" or "off"; empty for Redisson's default
	Watchdog time.Duration // lock watchdog timeout; 0 for Redisson's 30 s
	Redlock  []string      // host:port of each server, for locks over several
	Prefix   string        // that a NameMapper puts before every name
	Codec    string        // string for StringCodec
}

// identity is what an agent tells about itself when it is ready.
type identity struct {
	Client   string   // first part of the holder of all its locks
	Servers  []string // the same on each server of Redlock
	Redisson string   // the release that is really loaded
	PID      int
}

// answer is the agent's reply to one command. Times are in milliseconds of
// the agent's own monotonic clock.
type answer struct {
	ID        string
	OK        bool
	StartMs   float64
	ElapsedMs float64
	Result    json.RawMessage
	Error     *javaError

	received time.Time
}

// javaError is an exception that a command ended with.
type javaError struct {
	Class   string
	Message string
}

func (e *javaError) Error() string { return e.Class + ": " + e.Message }

// illegalMonitorState is the class of the exception with which Redisson
// answers an unlock by a thread that does not hold the lock.
const illegalMonitorState = "java.lang.IllegalMonitorStateException"

var errAgentEnded = errors.New("the Java agent has ended without answering")

// jvmFlags start a JVM quickly and keep it small.
var jvmFlags = []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m"}

// starting has room for as many agents as may start at a time. A starting JVM
// takes a core for itself, and the leases of the tests that run meanwhile last seconds.
var starting = make(chan struct{}, max(1, runtime.NumCPU()/2))

// startAgent starts an agent with the given release of Redisson, which must
// have been built by run.sh, and returns when it has connected to Redis.
func startAgent(t testing.TB, version string, options agentOptions) *agent {
	t.Helper()
	build := filepath.Join("redisson", "target", version)
	if _, err := os.Stat(filepath.Join(build, "classes")); err != nil {
		t.Fatalf("the Java side is not built for Redisson %s (%v): run \"make interop\"", version, err)
	}
	classPath := filepath.Join(build, "classes") + string(os.PathListSeparator) + filepath.Join(build, "dependency", "*")
	args := append([]string{}, jvmFlags...)
	args = append(args, "-cp", classPath, "mortise.agent.Agent")
	args = append(args, options.arguments()...)
	cmd := exec.Command(javaCommand(), args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, pipe, err := os.Pipe() // not StdoutPipe, which Wait would close before all is read
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = pipe

	starting <- struct{}{}
	defer func() { <-starting }()
	a := &agent{stdin: stdin, waiting: make(map[string]chan answer)}
	ready := a.expect("ready")
	a.process = startProcess(t, cmd)
	_ = pipe.Close() // the child has its own copy
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		defer stdout.Close()
		a.read(stdout)
	}()
	t.Cleanup(func() {
		a.kill()
		<-reading
	})
	if err := ready.wait(t.Context()).into(&a.identity); err != nil {
		t.Fatalf("Redisson %s does not start: %v", version, err)
	}
	if a.identity.Redisson != version {
		t.Fatalf("the agent runs Redisson %s, want %s: remove %s and run \"make interop\"", a.identity.Redisson, version, build)
	}
	return a
}

func (o agentOptions) arguments() []string {
	args := []string{"--address=redis://" + o.Address}
	if o.Cluster {
		args = append(args, "--mode=cluster")
	}
	if o.Sharded != "" {
		args = append(args, "--sharded="+o.Sharded)
	}
	if o.Watchdog > 0 {
		args = append(args, "--watchdog="+strconv.FormatInt(o.Watchdog.Milliseconds(), 10))
	}
	if o.Prefix != "" {
		args = append(args, "--prefix="+o.Prefix)
	}
	if o.Codec != "" {
		args = append(args, "--codec="+o.Codec)
	}
	if len(o.Redlock) > 0 {
		args = append(args, "--redlock="+strings.Join(o.Redlock, ","))
	}
	return args
}

func javaCommand() string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", "java")
	}
	return "java"
}

// read hands each answer to its waiter, until the agent ends.
func (a *agent) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		got := answer{received: time.Now()}
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			fmt.Fprintf(os.Stderr, "the Java agent answered something that is not an answer: %q\n", lines.Text())
			continue
		}
		a.mu.Lock()
		waiting := a.waiting[got.ID]
		delete(a.waiting, got.ID)
		a.mu.Unlock()
		if waiting != nil {
			waiting <- got
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for id, waiting := range a.waiting {
		close(waiting)
		delete(a.waiting, id)
	}
}

// expect registers for the answer with the given id.
func (a *agent) expect(id string) *reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &reply{answers: make(chan answer, 1)}
	if a.ended {
		close(r.answers)
	} else {
		a.waiting[id] = r.answers
	}
	return r
}

// busy reports whether a command has not been answered.
func (a *agent) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended || len(a.waiting) > 0
}

// thread returns the Java thread of that name, an owner of locks.
func (a *agent) thread(name string) *thread { return &thread{agent: a, name: name} }

// thread is one Java thread: it runs its commands one after the other.
type thread struct {
	agent *agent
	name  string
	kind  string // of the locks it works on; empty for RLock
}

// send queues a command for the thread; it does not wait for it.
func (j *thread) send(command string, args ...string) *reply {
	a := j.agent
	a.mu.Lock()
	a.last++
	id := strconv.Itoa(a.last)
	a.mu.Unlock()
	r := a.expect(id)
	line := strings.Join(append([]string{id, j.name, command}, args...), " ") + "\n"
	// One write per line: the pipe keeps lines of several senders whole.
	if _, err := io.WriteString(a.stdin, line); err != nil {
		r.failed = fmt.Errorf("cannot send %q to the Java agent: %w", strings.TrimSpace(line), err)
	}
	return r
}

// reply is an answer that may still be on its way.
type reply struct {
	answers chan answer
	failed  error
}

// patience bounds the wait for one answer: a hang must become a failure with
// a name before it becomes the timeout of the whole test binary.
const patience = time.Minute

// wait returns the answer when it is there.
func (r *reply) wait(ctx context.Context) *outcome {
	if r.failed != nil {
		return &outcome{err: r.failed}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer from the Java agent within %v", patience))
	defer cancel()
	select {
	case got, ok := <-r.answers:
		if !ok {
			return &outcome{err: errAgentEnded}
		}
		if got.Error != nil {
			return &outcome{answer: got, err: got.Error}
		}
		return &outcome{answer: got}
	case <-ctx.Done():
		return &outcome{err: context.Cause(ctx)}
	}
}

// answered reports whether the answer has come already. It does not take it.
func (r *reply) answered() bool { return len(r.answers) > 0 }

// outcome is an answer, or the reason that there is none. Its err is a
// *javaError if the command threw.
type outcome struct {
	answer
	err error
}

// into stores the result of the command in v, or returns its error.
func (o *outcome) into(v any) error {
	if o.err != nil {
		return o.err
	}
	return json.Unmarshal(o.Result, v)
}
