package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// record is how a stage of the proof has ended, as it is kept in bin/proof: the stages of one proof need not run one right
// after another, nor in the order of the list.
type record struct {
	Commit, Machine          string
	Begun                    time.Time
	Took                     time.Duration
	Err                      string // empty if it was green
	Passed, Failed           int
	NotPassed, Margins, Said []string
}

// keep adds the result of a stage to what is kept of it.
func (r *runner) keep(one result) error {
	code := one.commit
	if code != commit() {
		code += uncommitted // it has changed meanwhile
	}
	c := record{
		Commit: code, Machine: machine(), Begun: one.begun, Took: one.took, Passed: one.Passed, Failed: one.Failed,
		NotPassed: one.NotPassed, Margins: one.Margins, Said: one.quoted,
	}
	if one.err != nil {
		c.Err = one.err.Error()
	}
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(kept(one.name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func kept(stage string) string { return filepath.Join("bin", "proof", stage+".jsonl") }

// commit names the code. What is not committed has a name of this process: no other has run the same for certain. The page
// itself does not count.
func commit() string {
	name := said("git", "rev-parse", "--short=12", "HEAD")
	if said("git", "status", "--porcelain", "--", ".", ":(exclude)docs/proof.md") != "" {
		name += uncommitted
	}
	return name
}

// commit names the code of a proof; a gate needs no name.
func (r *runner) commit() string {
	if r.what != "proof" {
		return ""
	}
	return commit()
}

var uncommitted = fmt.Sprintf("-dirty-%d", time.Now().UnixMilli())

// recall returns the last results of these stages at this commit, in their order, and what has not run. A stage that was red
// before says so: that it is green now does not tell why.
func recall(stages []stage) (results []result, missing []string, err error) {
	now := commit()
	for _, s := range stages {
		text, err := os.ReadFile(kept(s.name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, nil, err
		}
		var last *record
		red := 0
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			var c record
			if err := d.Decode(&c); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", kept(s.name), err)
			}
			if c.Commit != now {
				continue
			}
			if last != nil && last.Err != "" {
				red++
			}
			last = &c
		}
		if last == nil {
			missing = append(missing, s.name)
			continue
		}
		one := result{
			name: s.name, shows: s.shows, begun: last.Begun, took: last.Took, machine: last.Machine, redBefore: red,
			Passed: last.Passed, Failed: last.Failed, NotPassed: last.NotPassed, Margins: last.Margins, quoted: last.Said,
		}
		if last.Err != "" {
			one.err = errors.New(last.Err)
		}
		results = append(results, one)
	}
	return results, missing, nil
}

// begun returns when the first of the stages began.
func begun(results []result) time.Time {
	return slices.MinFunc(results, func(a, b result) int { return a.begun.Compare(b.begun) }).begun
}
