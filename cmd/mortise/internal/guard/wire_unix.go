//go:build unix

package guard

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Between mortise and its guard process there is a socket. mortise sends one order, and the word
// dismissed at the end; without that word, the end of the socket means that mortise was killed.
// The guard process sends reports.

// order is what the guard process should start.
type order struct {
	path       string
	argv, env  []string
	foreground bool // give it the terminal
	outlives   bool // it goes on when mortise is killed
}

const dismissed = 'd'

var errOrder = errors.New("the order cannot be read")

// encode returns the length of the order and its parts, none of which can contain a zero byte.
func (o order) encode() []byte {
	head := []string{strconv.FormatBool(o.foreground), strconv.FormatBool(o.outlives), o.path, strconv.Itoa(len(o.argv))}
	body := strings.Join(slices.Concat(head, o.argv, o.env), "\x00")
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func readOrder(r io.Reader) (o order, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return o, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, body); err != nil {
		return o, err
	}
	parts := strings.Split(string(body), "\x00")
	if len(parts) < 4 {
		return o, errOrder
	}
	n, err := strconv.Atoi(parts[3])
	if err != nil || n < 0 || n > len(parts)-4 {
		return o, errOrder
	}
	o.foreground, o.outlives, o.path = parts[0] == "true", parts[1] == "true", parts[2]
	o.argv, o.env = parts[4:4+n], parts[4+n:]
	return o, nil
}

// report is what the guard process has to say about the command.
type report struct {
	kind  reportKind
	value uint32
}

type reportKind byte

const (
	reportStarted reportKind = 's' // the value is its pid
	reportFailed  reportKind = 'f' // it did not start; the value is an errno
	reportStatus  reportKind = 'w' // it has stopped or ended; the value is its wait status
)

func (r report) encode() []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(r.kind)}, r.value)
}

func readReport(r io.Reader) (report, error) {
	var text [5]byte
	if _, err := io.ReadFull(r, text[:]); err != nil {
		return report{}, err
	}
	return report{reportKind(text[0]), binary.BigEndian.Uint32(text[1:])}, nil
}
