package goredis

import (
	"context"
	"strconv"

	"github.com/mortise-go/mortise/driver"
)

// Eval implements driver.Driver.
func (d *Driver) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	reply, err := d.do(ctx, d.client, byDigest(ctx, call))
	if err != nil && driver.ClassOf(err) == driver.NoScript {
		reply, err = d.do(ctx, d.client, bySource(ctx, call))
	}
	if err != nil {
		return driver.Value{}, err
	}
	return value(reply)
}

func byDigest(ctx context.Context, call driver.Call) *command {
	return scriptCommand(ctx, "evalsha", call.Script.SHA(), call)
}

func bySource(ctx context.Context, call driver.Call) *command {
	return scriptCommand(ctx, "eval", call.Script.Source(), call)
}

func scriptCommand(ctx context.Context, name, script string, call driver.Call) *command {
	rest := make([]string, 0, 1+len(call.Keys)+len(call.Args))
	rest = append(rest, strconv.Itoa(len(call.Keys)))
	rest = append(append(rest, call.Keys...), call.Args...)
	cmd := newCommand(ctx, name, script, rest...)
	if len(call.Keys) > 0 {
		cmd.SetFirstKeyPos(3)
	}
	return cmd
}
