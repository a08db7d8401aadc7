// Package resp speaks just enough of the Redis protocol (RESP2) for the
// embedded server's own driver. Applications' Redis clients do the real work
// elsewhere.
package resp

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"github.com/mortise-go/mortise/driver"
)

// ReplyError is an error reply of the server, as sent.
type ReplyError string

// Error returns the text that the server sent.
func (e ReplyError) Error() string { return string(e) }

// Append appends a command to b.
func Append(b []byte, args ...string) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(len(args)), 10)
	b = append(b, '\r', '\n')
	for _, arg := range args {
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(arg)), 10)
		b = append(b, '\r', '\n')
		b = append(b, arg...)
		b = append(b, '\r', '\n')
	}
	return b
}

// AppendEval appends a script call to b, by digest or by source.
func AppendEval(b []byte, call driver.Call, source bool) []byte {
	args := make([]string, 0, 3+len(call.Keys)+len(call.Args))
	if source {
		args = append(args, "EVAL", call.Script.Source())
	} else {
		args = append(args, "EVALSHA", call.Script.SHA())
	}
	args = append(args, strconv.Itoa(len(call.Keys)))
	args = append(args, call.Keys...)
	return Append(b, append(args, call.Args...)...)
}

// Read reads one reply. An error reply is returned as a [ReplyError]; any
// other error leaves the connection unusable. Status replies read as strings.
func Read(r *bufio.Reader) (driver.Value, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return driver.Value{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return driver.Value{}, fmt.Errorf("malformed reply %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return driver.StringValue(text), nil
	case '-':
		return driver.Value{}, ReplyError(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return driver.Value{}, fmt.Errorf("malformed reply %q", line)
	}
	switch {
	case kind == ':':
		return driver.IntValue(n), nil
	case (kind == '$' || kind == '*') && n < 0:
		return driver.Value{}, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return driver.Value{}, err
		}
		return driver.StringValue(string(b[:n])), nil
	case kind == '*':
		return readArray(r, int(n))
	}
	return driver.Value{}, fmt.Errorf("malformed reply %q", line)
}

func readArray(r *bufio.Reader, n int) (driver.Value, error) {
	items := make([]driver.Value, n)
	var failed error
	for i := range items {
		v, err := Read(r)
		if _, reply := err.(ReplyError); reply {
			failed = err // the rest must be read all the same
		} else if err != nil {
			return driver.Value{}, err
		}
		items[i] = v
	}
	return driver.ArrayValue(items), failed
}
