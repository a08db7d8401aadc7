package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Waiter is a Driver that can wait until replicas have what its scripts wrote. It is a separate
// interface because only durable locks need it.
type Waiter interface {
	// EvalWait runs scripts as Batch does, but all on one connection, in one pipeline, followed
	// by WAIT or WAITAOF. One master must serve the keys of all scripts. Result i belongs to
	// call i.
	//
	// WAIT counts the replicas that have the last write of this connection; before Redis 7.2,
	// all that the master had written by then. So a script must write something for WAIT to
	// wait for.
	//
	// A script that the server did not run, because it did not know it or does not serve its
	// keys, is sent again, with a WAIT of its own, to the server that it names. If the servers of
	// a cluster do not agree on that, the error has class Passing.
	//
	// It takes up to wait.Timeout longer than Eval, and a tenth of that more each time that a script is sent again.
	EvalWait(ctx context.Context, calls []Call, wait Wait) []Acknowledged
}

// Wait says what to wait for.
type Wait struct {
	// Replicas is the number to wait for. With 0 there is no waiting: the replicas that already
	// have the writes are counted.
	Replicas int
	// Timeout bounds the waiting. It is rounded up to whole milliseconds, at least one: Redis
	// takes 0 for no limit.
	Timeout time.Duration
	// AOF waits until the replicas, and the master itself, have synced the writes to their
	// append-only files. It needs Redis 7.2 or Valkey, and a master that has such a file.
	AOF bool
	// Count asks for the master's number of replicas. It needs the right to INFO.
	Count bool
}

// Acknowledged is the outcome of one script, and of waiting for replicas.
//
// If Err is the script's own error, its class means the same as for Eval. If the script has run,
// but the replies about replicas are missing, Value is set and Err says why: with class Unknown
// if the connection broke, otherwise with the class of Redis' reply.
type Acknowledged struct {
	Result
	Acks   int  // replicas that have the writes
	Synced bool // the master has synced them to its file; only with AOF
	Of     int  // replicas connected to the master; only with Count
}

// Where says which server the scripts of a pipeline go to.
type Where struct {
	// Addr is the address that a server has named. It is empty for the master that is believed to
	// serve the keys.
	Addr string
	// Asking says that ASKING must be sent before each script.
	Asking bool
}

// Run implements EvalWait for any driver. Send must send the scripts with the indexes todo in one
// pipeline, those with source[i] as text, followed by the commands follow; it returns a reply to each of
// these, or the reason why there is none. With redirects, it is told to send where servers have named another
// address; if the driver does not know that, it sends to the master that it believes in then.
func (w Wait) Run(calls []Call, send func(where Where, todo []int, source []bool, follow [][]string) ([]Result, error), redirects bool) []Acknowledged {
	start := time.Now()
	results := make([]Acknowledged, len(calls))
	source := make([]bool, len(calls))
	todo := map[Where][]int{}
	for i := range calls {
		todo[Where{}] = append(todo[Where{}], i)
	}
	// Each script may be unknown, and redirected as often as that is likely. The last rounds send text:
	// a new master does not know the script either.
	const rounds, byDigest = 4, 2
	for round := 1; len(todo) > 0 && round <= rounds; round++ {
		next := map[Where][]int{}
		for where, indexes := range todo {
			for _, i := range indexes {
				source[i] = source[i] || round > byDigest
			}
			replies, err := send(where, indexes, source, w.since(start).Commands())
			w.tell(results, indexes, replies, err)
			for _, i := range indexes {
				if err != nil || results[i].Err == nil {
					continue
				}
				if to, ok := redirection(results[i].Err); ok && redirects {
					next[to] = append(next[to], i)
				} else if ClassOf(results[i].Err) == NoScript {
					next[where], source[i] = append(next[where], i), true
				}
			}
		}
		todo = next
	}
	return results
}

// since returns w with the rest of its timeout after start. WAIT also waits behind a script that did not run, so most of it
// may be gone; a tenth is left for a replica that has what is written now.
func (w Wait) since(start time.Time) Wait {
	w.Timeout = max(w.Timeout-time.Since(start), w.Timeout/10)
	return w
}

// tell fills in the results of the scripts with the indexes sent.
func (w Wait) tell(results []Acknowledged, sent []int, replies []Result, err error) {
	told := Acknowledged{Result: Result{Err: err}}
	if err == nil {
		told = w.read(replies[len(sent):])
	}
	for j, i := range sent {
		results[i] = told
		switch {
		case err != nil:
		case replies[j].Err != nil:
			results[i] = Acknowledged{Result: replies[j]}
		default:
			results[i].Value = replies[j].Value
		}
	}
}

// redirection returns where a server that did not run a script has redirected it.
func redirection(err error) (where Where, ok bool) {
	var e *Error
	if !errors.As(err, &e) {
		return Where{}, false
	}
	fields := strings.Fields(e.Reply)
	if len(fields) != 3 || fields[0] != "MOVED" && fields[0] != "ASK" {
		return Where{}, false
	}
	where = Where{Addr: fields[2], Asking: fields[0] == "ASK"}
	if at := strings.LastIndexByte(where.Addr, ':'); at >= 0 { // IPv6 comes without brackets
		where.Addr = net.JoinHostPort(strings.Trim(where.Addr[:at], "[]"), where.Addr[at+1:])
	}
	return where, true
}

// Commands returns the commands that follow the scripts.
func (w Wait) Commands() [][]string {
	var commands [][]string
	if w.Count {
		commands = append(commands, []string{"INFO", "replication"})
	}
	ms := strconv.FormatInt(max(1, int64((w.Timeout+time.Millisecond-1)/time.Millisecond)), 10)
	if w.AOF {
		return append(commands, []string{"WAITAOF", "1", strconv.Itoa(w.Replicas), ms})
	}
	return append(commands, []string{"WAIT", strconv.Itoa(w.Replicas), ms})
}

// read evaluates the replies to Commands.
func (w Wait) read(replies []Result) (told Acknowledged) {
	for _, r := range replies {
		if r.Err != nil {
			told.Err = r.Err
			return told
		}
	}
	v := replies[len(replies)-1].Value
	switch {
	case w.AOF && v.Len() == 2:
		told.Synced, told.Acks = v.At(0).Int() >= 1, int(v.At(1).Int())
	case !w.AOF && v.Kind() == Int:
		told.Acks = int(v.Int())
	default:
		told.Err = &Error{Class: Other, Err: fmt.Errorf("unexpected reply of %s: %v", w.Commands()[len(replies)-1][0], v)}
		return told
	}
	if w.Count {
		told.Of, told.Err = connected(replies[0].Value.Str())
	}
	return told
}

// connected reads the number of replicas in a reply of INFO.
func connected(info string) (int, error) {
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "connected_slaves:"); ok {
			if n, err := strconv.Atoi(text); err == nil {
				return n, nil
			}
		}
	}
	return 0, &Error{Class: Other, Err: errors.New("INFO replication does not say how many replicas the master has")}
}
