// Package resp implements just enough of the Redis protocol (RESP2) for the driver of the
// embedded server. With other servers, the applications' client libraries do this.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

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

// The bounds of a reply. Redis' own bounds allow scripts no more. A length is only announced by
// the other side, and is not believed before its bytes have come.
const (
	maxString = 512 << 20 // bytes
	maxItems  = 1 << 24
	maxDepth  = 32
)

// Read reads one reply. An error reply is returned as a [ReplyError]; any
// other error leaves the connection unusable. Status replies read as strings.
func Read(r *bufio.Reader) (driver.Value, error) { return read(r, maxDepth) }

func read(r *bufio.Reader, depth int) (driver.Value, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return driver.Value{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return driver.Value{}, malformed(line)
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
		return driver.Value{}, malformed(line)
	}
	if kind == ':' {
		return driver.IntValue(n), nil
	}
	return readSized(r, line, n, depth)
}

// readSized reads the rest of a string or an array whose first line announces the size n.
func readSized(r *bufio.Reader, line string, n int64, depth int) (driver.Value, error) {
	switch kind := line[0]; {
	case (kind == '$' || kind == '*') && n == -1:
		return driver.Value{}, nil
	case kind == '$' && n >= 0 && n <= maxString:
		return readString(r, n)
	case kind == '*' && n >= 0 && n <= maxItems && depth > 0:
		return readArray(r, n, depth-1)
	}
	return driver.Value{}, malformed(line)
}

func malformed(line string) error { return fmt.Errorf("malformed reply %.100q", line) }

// readString reads n bytes and the end of the line.
func readString(r *bufio.Reader, n int64) (driver.Value, error) {
	var b strings.Builder
	if _, err := io.CopyN(&b, r, n); err != nil {
		return driver.Value{}, err
	}
	var end [2]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return driver.Value{}, err
	}
	if end != [2]byte{'\r', '\n'} {
		return driver.Value{}, malformed(b.String() + string(end[:]))
	}
	return driver.StringValue(b.String()), nil
}

func readArray(r *bufio.Reader, n int64, depth int) (driver.Value, error) {
	items := make([]driver.Value, 0, min(n, 1024))
	var failed error
	for range n {
		v, err := read(r, depth)
		if _, reply := errors.AsType[ReplyError](err); reply {
			failed = err // the rest must still be read
		} else if err != nil {
			return driver.Value{}, err
		}
		items = append(items, v)
	}
	return driver.ArrayValue(items), failed
}
