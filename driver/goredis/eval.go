package goredis

import (
	"context"
	"strconv"

	"github.com/mortise-go/mortise/driver"
)

// Eval implements driver.Driver.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if d.refused != nil {
		return driver.Value{}, d.refused
	}
	l := d.pipelineOf(&call)
	cmd := d.again(call)
	reply, err := d.run(ctx, l, cmd)
	if err != nil {
		if driver.ClassOf(err) != driver.NoScript {
			return driver.Value{}, err
		}
		if reply, err = d.run(ctx, l, bySource(ctx, call)); err != nil {
			return driver.Value{}, err
		}
	}
	v, err := value(reply)
	if d.cluster == nil {
		recycle(cmd)
	}
	return v, err
}

// again is byDigest with a command that may be reused. In a cluster it is not, because a command
// has kept its slot.
func (d *Driver) again(call driver.Call) *command {
	if d.cluster != nil {
		return byDigest(context.Background(), call)
	}
	c := reused(2 + len(call.Keys) + len(call.Args))
	c.fill(call.Script.SHA(), call)
	return c
}

func byDigest(ctx context.Context, call driver.Call) *command {
	return scriptCommand(ctx, "evalsha", call.Script.SHA(), call)
}

func bySource(ctx context.Context, call driver.Call) *command {
	return scriptCommand(ctx, "eval", call.Script.Source(), call)
}

func scriptCommand(ctx context.Context, name, script string, call driver.Call) *command {
	c := blank(ctx, name, 2+len(call.Keys)+len(call.Args))
	c.fill(script, call)
	return c
}

// fill sets the arguments of EVALSHA or EVAL.
func (c *command) fill(script string, call driver.Call) {
	c.words[0].text, c.words[1].text = script, strconv.Itoa(len(call.Keys))
	rest := c.words[2:]
	for i, key := range call.Keys {
		rest[i].text = key
	}
	rest = rest[len(call.Keys):]
	for i, arg := range call.Args {
		rest[i].text = arg
	}
	first := int8(0)
	if len(call.Keys) > 0 {
		first = 3
	}
	c.SetFirstKeyPos(first)
}
