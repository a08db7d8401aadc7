package torture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// Env is the environment variable with the [Config] of a client, in JSON.
const Env = "MORTISE_TORTURE_CLIENT"

// Config is what a client is told when it starts.
type Config struct {
	Witness    string // the address of a Unix socket
	Client     int
	Seed       uint64
	Goroutines int
	Loads      []Load

	Driver   string // goredis or rueidis
	Topology string // single, sentinel, cluster, or several for servers without each other's data
	Addrs    []string
	Via      map[string]string // where to connect to, by the address that is meant
	TTL      time.Duration
	Acks     int
}

// Load is one thing to acquire.
type Load struct {
	Kind   string   // of lock; the subject knows which there are
	Name   string   //
	Names  []string // of several locks, or values of a group
	Units  int      // permits there are
	Fenced bool     // its holds have tokens, and so have all other holds of that name
	Meets  bool     // callers wait for each other, and so not for long
	Role   string   // what the witness wants done with it
}

// The operations that a client tells the witness of, each of which is answered.
const (
	Want  = "want"  // asks for a load
	Miss  = "miss"  // has not got it
	Got   = "got"   // has it, and reads the register
	Still = "still" // has it still
	Write = "write" // writes to the register
	Leave = "leave" // is about to leave the others that it has met
	End   = "end"   // has released it, or lost it
	Bye   = "bye"   // the client has closed the library and ends
)

// Message is what a goroutine of a client says.
type Message struct {
	Op        string
	Client    int
	Goroutine int
	Load      int    `json:",omitempty"`
	At        int64  `json:",omitempty"` // when the hold was valid last; see [Now]
	Token     int64  `json:",omitempty"`
	Owner     string `json:",omitempty"`
	Version   int64  `json:",omitempty"` // of the register, when it was read
	Careless  bool   `json:",omitempty"` // writes without looking at the context
	Class     string `json:",omitempty"` // of an error
	Text      string `json:",omitempty"` // of an error, or of what is left over
	Lost      bool   `json:",omitempty"` // the context has ended because of a loss
	Noticed   int64  `json:",omitempty"` // when the context ended
	Bad       string `json:",omitempty"` // a promise that the library has broken
	Heap      int64  `json:",omitempty"` // bytes more than at the beginning
}

// Reply is what the witness answers.
type Reply struct {
	Stop    bool  `json:",omitempty"` // enough
	Calm    bool  `json:",omitempty"` // no faults any more: wait for as long as it takes, hold for a short time
	Version int64 `json:",omitempty"`
	Refused bool  `json:",omitempty"` // the token is stale

	Name string `json:",omitempty"` // of the load, if the witness has a new one for it
	Role string `json:",omitempty"` // see Load
}

// line is a goroutine's connection to the witness.
type line struct {
	conn net.Conn
	in   *json.Decoder
	out  *bufio.Writer
	who  Message
}

func dial(c Config, goroutine int) (*line, error) {
	conn, err := net.Dial("unix", c.Witness)
	if err != nil {
		return nil, err
	}
	who := Message{Client: c.Client, Goroutine: goroutine}
	return &line{conn, json.NewDecoder(conn), bufio.NewWriter(conn), who}, nil
}

// say sends m and returns the answer.
func (l *line) say(m Message) (Reply, error) {
	m.Client, m.Goroutine = l.who.Client, l.who.Goroutine
	if err := json.NewEncoder(l.out).Encode(m); err != nil {
		return Reply{}, err
	}
	if err := l.out.Flush(); err != nil {
		return Reply{}, err
	}
	var r Reply
	if err := l.in.Decode(&r); err != nil {
		return Reply{}, fmt.Errorf("the witness is gone: %w", err)
	}
	return r, nil
}
