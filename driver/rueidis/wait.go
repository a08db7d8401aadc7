package rueidis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// EvalWait implements driver.Waiter. The client uses a connection of its own for a pipeline with
// WAIT, so it does not go through a nodePipeline, where it would delay others.
func (d *Driver) EvalWait(ctx context.Context, calls []driver.Call, wait driver.Wait) []driver.Acknowledged {
	return wait.Run(calls, func(where driver.Where, todo []int, source []bool, follow [][]string) ([]driver.Result, error) {
		return d.waitReplies(ctx, where, calls, todo, source, wait.Timeout, follow)
	}, d.cluster)
}

// waitReplies sends one pipeline and returns the reply to each command, or the reason why there is
// none.
func (d *Driver) waitReplies(ctx context.Context, where driver.Where, calls []driver.Call, todo []int, source []bool, timeout time.Duration, follow [][]string) ([]driver.Result, error) {
	if ctx.Err() != nil {
		return nil, driver.ContextError(ctx, driver.NotSent)
	}
	node, err := d.nodeFor(ctx, where, calls[todo[0]])
	if err != nil {
		return nil, err
	}
	var cmds redis.Commands
	for _, i := range todo {
		if err := d.check(calls[i]); err != nil {
			return nil, err
		}
		name, text := "EVALSHA", calls[i].Script.SHA()
		if source[i] {
			name, text = "EVAL", calls[i].Script.Source()
		}
		if where.Asking {
			cmds = append(cmds, d.client.B().Arbitrary("ASKING").Build())
		}
		cmds = append(cmds, d.command(name, text, &calls[i]))
	}
	for _, c := range follow {
		cmds = append(cmds, d.client.B().Arbitrary(c...).Blocking())
	}
	if !d.enter() {
		return nil, &driver.Error{Class: driver.Closed, Err: errClosed}
	}
	// The client sets no limit for a pipeline with WAIT. It must not see a deadline either: while
	// it waits for that, it ignores a cancellation.
	limited, cancel := context.WithCancel(d.life)
	limit := time.AfterFunc(timeout+replyLimit, cancel)
	done := make(chan []redis.RedisResult, 1)
	go func() {
		defer d.running.Done()
		defer cancel()
		defer limit.Stop()
		done <- node.DoMulti(limited, cmds...)
	}()
	select {
	case results := <-done:
		if where.Asking {
			results = behindAsking(results, len(todo))
		}
		replies, r := make([]driver.Result, len(results)), route{d.pipelineOf(&calls[todo[0]]), true}
		for i := range results {
			replies[i] = d.waitReply(&results[i], r)
		}
		return replies, nil
	case <-ctx.Done():
		cancel()
		return nil, driver.ContextError(ctx, driver.Unknown)
	case <-d.closing:
		return nil, &driver.Error{Class: driver.Unknown, Err: errClosed}
	}
}

// waitReply converts the reply to a script, INFO or WAIT.
func (d *Driver) waitReply(result *redis.RedisResult, r route) driver.Result {
	if err := result.NonRedisError(); errors.Is(err, context.Canceled) { // by the limit: it may have been sent
		return driver.Result{Err: &driver.Error{Class: driver.Unknown, Err: errors.New("rueidis: no reply in time")}}
	}
	msg, err := result.ToMessage()
	if err = d.failure(err, r); err != nil {
		return driver.Result{Err: err}
	}
	v, err := value(&msg)
	if err == nil {
		return driver.Result{Value: v}
	}
	if text, bad := result.ToString(); bad == nil { // a verbatim string, as of INFO
		return driver.Result{Value: driver.StringValue(text)}
	}
	return driver.Result{Err: err}
}

// behindAsking returns the results without those of ASKING, which stands before each of n scripts.
func behindAsking(results []redis.RedisResult, n int) []redis.RedisResult {
	var scripts []redis.RedisResult
	for i := range n {
		scripts = append(scripts, results[2*i+1])
	}
	return append(scripts, results[2*n:]...)
}

// nodeFor returns a client of the server at where, or of the master that serves a script's keys. The
// cluster client itself would do for one slot, but not for several.
func (d *Driver) nodeFor(ctx context.Context, where driver.Where, call driver.Call) (redis.Client, error) {
	if !d.cluster || len(call.Keys) == 0 {
		return d.client, nil
	}
	slot := slotOf(call.Keys[0])
	if where.Addr != "" {
		if node := d.nodeAt(ctx, fullAddr(where.Addr, d.slots.owner(slot)), call.Keys[0]); node != nil {
			return node, nil
		}
	}
	if d.slots.touch(); where.Addr != "" || d.slots.owner(slot) == "" {
		if err := d.slots.refresh(ctx); err != nil {
			return nil, err
		}
	}
	addr := d.slots.owner(slot)
	if node, ok := d.client.Nodes()[addr]; ok {
		return node, nil
	}
	return nil, &driver.Error{Class: driver.NotSent, Err: fmt.Errorf("rueidis: the client does not know master %q yet", addr)}
}

// nodeAt returns the client of the node at addr, to which a server has redirected key, nil if there is
// none.
func (d *Driver) nodeAt(ctx context.Context, addr, key string) redis.Client {
	if node, ok := d.client.Nodes()[addr]; ok {
		return node
	}
	d.lookFor(ctx, key)
	return d.client.Nodes()[addr]
}

// lookFor makes the client learn of the node that serves key. This runs nothing, as no script has that
// digest. But a server that does not serve the slot replies with MOVED or ASK, and the client follows.
func (d *Driver) lookFor(ctx context.Context, key string) {
	nobody := strings.Repeat("0", 40)
	_, _ = d.do(ctx, d.client, d.command("EVALSHA", nobody, &driver.Call{Keys: []string{key}}))
}
