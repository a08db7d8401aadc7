// Package rig runs systems of locks in processes of their own, against servers
// of their own, and looks at both.
//
// A worker is any program that reads commands on its standard input and answers
// on its standard output, one JSON object a line, and ends when its input does:
//
//	command                  what it does                        answer
//	{"do":"open", "order":…} connects and opens the gate          {"is":"open"}
//	{"do":"start"}           starts the load, which counts nothing {"is":"started"}
//	{"do":"begin"}           opens the window                     {"is":"begun"}
//	{"do":"end"}             closes it and stops the load         {"is":"ended","result":…}
//
// The answer to what cannot be done is {"is":"failed","error":…}. What a worker
// writes to its standard error is shown with its failure.
//
// Order and its Spec, and Result, are those of this package and of
// internal/workload. A worker in another language need fill only what applies;
// its histograms may be any [nanoseconds, count] pairs.
package rig

import (
	"time"

	"github.com/mortise-go/mortise/internal/workload"
)

// Order is what a worker must run.
type Order struct {
	System string        `json:"system"`
	Addr   string        `json:"addr"` // of the server, host:port
	Gate   string        `json:"gate"` // the file to map a workload.Gate from
	Spec   workload.Spec `json:"spec"`
	Grace  time.Duration `json:"grace,omitempty"` // for the load to end of itself; default 5 s
}

// command is a line to a worker.
type command struct {
	Do    string `json:"do"`
	Order *Order `json:"order,omitempty"`
}

// answer is a line from a worker.
type answer struct {
	Is     string           `json:"is"`
	Error  string           `json:"error,omitempty"`
	Result *workload.Result `json:"result,omitempty"`
}

// answers are the names of the successful answers.
var answers = map[string]string{"open": "open", "start": "started", "begin": "begun", "end": "ended"}
