package rueidis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

var _ driver.Commander = (*Driver)(nil)

// Servers implements driver.Commander.
func (d *Driver) Servers(ctx context.Context) ([]string, error) {
	if ctx.Err() != nil {
		return nil, driver.ContextError(ctx, driver.NotSent)
	}
	if !d.enter() {
		return nil, &driver.Error{Class: driver.Closed, Err: errClosed}
	}
	defer d.running.Done()
	return slices.Sorted(maps.Keys(d.client.Nodes())), nil
}

// Command implements driver.Commander.
func (d *Driver) Command(ctx context.Context, server string, words ...string) (driver.Value, error) {
	node, ok := d.client.Nodes()[server]
	if !ok {
		return driver.Value{}, &driver.Error{Class: driver.NotSent, Err: fmt.Errorf("rueidis: the client does not know a server %q", server)}
	}
	reply, err := d.do(ctx, node, node.B().Arbitrary(words[0]).Args(words[1:]...).Build())
	if err != nil {
		return driver.Value{}, err
	}
	return plain(&reply)
}

// plain converts a reply of any command.
func plain(m *redis.RedisMessage) (driver.Value, error) {
	switch {
	case m.IsMap():
		return plainMap(m)
	case m.IsArray():
		items, err := m.ToArray()
		if err != nil {
			return driver.Value{}, unexpected(*m)
		}
		values := make([]driver.Value, len(items))
		for i := range items {
			if values[i], err = plain(&items[i]); err != nil {
				return driver.Value{}, err
			}
		}
		return driver.ArrayValue(values), nil
	case m.IsBool():
		yes, err := m.ToBool()
		if err == nil && yes {
			return driver.IntValue(1), nil
		}
		return driver.IntValue(0), err
	case m.IsFloat64():
		n, err := m.ToFloat64()
		return driver.StringValue(strconv.FormatFloat(n, 'g', -1, 64)), err
	case m.IsNil(), m.IsInt64(), m.IsString(), m.Error() != nil:
		return value(m)
	}
	s, err := m.ToString()
	if err != nil {
		return driver.Value{}, unexpected(*m)
	}
	// A verbatim string begins with its form, which the client leaves there; a large number does not.
	if len(s) >= 4 && s[3] == ':' {
		s = s[4:]
	}
	return driver.StringValue(s), nil
}

func plainMap(m *redis.RedisMessage) (driver.Value, error) {
	pairs, err := m.ToMap()
	if err != nil {
		return driver.Value{}, unexpected(*m)
	}
	var values []driver.Value
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		item := pairs[key]
		v, err := plain(&item)
		if err != nil {
			return driver.Value{}, err
		}
		values = append(values, driver.StringValue(key), v)
	}
	return driver.ArrayValue(values), nil
}
