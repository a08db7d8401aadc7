package rueidis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	redis "github.com/redis/rueidis"

	"github.com/mortise-go/mortise/driver"
)

// isDialError reports whether the connection was not established. Errors during the handshake count
// only if they say so themselves: the others look like those of a connection in use.
func isDialError(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

// value converts a reply of a script.
func value(m *redis.RedisMessage) (driver.Value, error) {
	switch {
	case m.IsNil():
		return driver.Value{}, nil
	case m.IsInt64():
		n, err := m.ToInt64()
		return driver.IntValue(n), err
	case m.IsString():
		s, err := m.ToString()
		return driver.StringValue(s), err
	case m.IsArray():
		items, err := m.ToArray()
		if err != nil {
			return driver.Value{}, unexpected(*m)
		}
		if len(items) == 1 && items[0].IsInt64() {
			n, err := items[0].ToInt64()
			return driver.CodeValue(n), err
		}
		values := make([]driver.Value, len(items))
		for i := range items {
			if values[i], err = value(&items[i]); err != nil {
				return driver.Value{}, err
			}
		}
		return driver.ArrayValue(values), nil
	}
	if err := m.Error(); err != nil { // in an array
		return driver.Value{}, classify(err)
	}
	return driver.Value{}, unexpected(*m)
}

// unexpected takes a copy, so that expected replies can stay on the caller's stack.
func unexpected(m redis.RedisMessage) error {
	return &driver.Error{Class: driver.Other, Err: fmt.Errorf("rueidis: a script replied neither nil, integer, string nor array: %s", &m)}
}
