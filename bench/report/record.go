// Package report stores the measurements of a run of the benchmark, and makes them readable. It
// needs only a stored run.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Record is one run of the benchmark.
type Record struct {
	Began       time.Time   `json:"began"`
	Took        float64     `json:"took"` // seconds
	Environment Environment `json:"environment"`
	Systems     []System    `json:"systems"`
	Cases       []Case      `json:"cases"`
	Samples     []Sample    `json:"samples"`
	Missing     []string    `json:"missing,omitempty"` // what was not run, and why
}

// Environment is the machine and software of a run.
type Environment struct {
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Memory  string `json:"memory"`
	Kernel  string `json:"kernel"`
	Go      string `json:"go"`
	Redis   string `json:"redis"`
	Mortise string `json:"mortise"` // revision
	Load    string `json:"load"`    // of the machine before the run
	Pinned  bool   `json:"pinned"`  // whether processes can be pinned here
}

// System is one of the compared systems.
type System struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Settings string `json:"settings"`
	Limit    bool   `json:"limit,omitempty"`
}

// Case is one load that systems were measured under.
type Case struct {
	Name     string `json:"name"`     // such as W3/64
	Workload string `json:"workload"` // such as W3
	Title    string `json:"title"`
	Main     bool   `json:"main,omitempty"`   // it has a table of its own
	Growth   string `json:"growth,omitempty"` // the series it belongs to: waiters, processes, held or queue
	Size     int    `json:"size"`             // how many of these
	Limit    string `json:"limit,omitempty"`  // the system that shows what is possible
	Pinned   bool   `json:"pinned,omitempty"`
	Window   string `json:"window"`
}

// shape returns the workload that has the same figures: that of seen/W1 is W1.
func (c *Case) shape() string { return strings.TrimPrefix(c.Workload, "seen/") }

// Sample is the result of one system under one load in one round.
type Sample struct {
	Case   string `json:"case"`
	System string `json:"system"`
	Round  int    `json:"round"` // from 0
	Error  string `json:"error,omitempty"`
	*Figures
}

// Write stores a record.
func (r *Record) Write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Read returns a stored record.
func Read(path string) (*Record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is not a run of this benchmark: %w", path, err)
	}
	return r, nil
}
