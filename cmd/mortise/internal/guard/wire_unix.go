//go:build unix

package guard

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Between mortise and its guard process there is a socket. mortise sends one order, then words: until
// when the command may run, and in the end that the guard process is dismissed. Without that word,
// the end of the socket means that mortise was killed. The guard process sends reports.

// order is what the guard process should start.
type order struct {
	path       string
	argv, env  []string
	foreground bool // give it the terminal
	outlives   bool // it goes on when mortise is killed
}

// word is what mortise tells the guard process of a command that runs.
type word struct {
	kind wordKind
	sent int64         // by the wall clock, in ns
	left time.Duration // from then on the command may run for so long
}

type wordKind byte

const (
	wordDismissed wordKind = 'd'
	wordUntil     wordKind = 'u'
)

const wordSize = 1 + 8 + 8

func (w word) encode() []byte {
	text := binary.BigEndian.AppendUint64([]byte{byte(w.kind)}, uint64(w.sent))
	return binary.BigEndian.AppendUint64(text, uint64(w.left))
}

func readWord(r io.Reader) (word, error) {
	var text [wordSize]byte
	_, err := io.ReadFull(r, text[:])
	return word{wordKind(text[0]), int64(binary.BigEndian.Uint64(text[1:])), time.Duration(binary.BigEndian.Uint64(text[9:]))}, err
}

// deadline returns until when the command may run, for a reader that may have been held up.
func (w word) deadline() time.Time {
	now := time.Now()
	return now.Add(w.left - max(0, time.Duration(now.UnixNano()-w.sent)))
}

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
