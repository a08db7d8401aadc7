package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// event is what happened to one worker of the demonstration. Events are written as lines of JSON to
// one pipe that all processes share: the kernel writes a short line atomically, so the order in the
// pipe is the order in which things happened, whatever the clocks say.
type event struct {
	At     time.Time `json:"at"`
	Worker int       `json:"worker"` // from 1
	What   action    `json:"what"`
	Value  int       `json:"value,omitempty"` // of the file, if any
	Text   string    `json:"text,omitempty"`  // of a loss
}

// action is what a worker did, or what happened to it.
type action string

const (
	ready        action = "ready"  // is connected, and waits for the start
	workerAsks   action = "asks"   // is about to call Lock
	workerEnters action = "enters" // Lock has returned
	workerStalls action = "stalls" // has read Value, and does nothing more
	workerWrites action = "writes" // has written Value: an update is complete
	workerLeaves action = "leaves" // is about to call Unlock
	workerLost   action = "lost"   // its lease was lost, see Text
	workerEnds   action = "ends"   // has nothing more to do
	workerKilled action = "killed" // is killed at this moment; written by the parent
)

// maxEventText keeps a line within the size that a pipe writes atomically: POSIX guarantees 512
// bytes.
const maxEventText = 300

// write writes the event as one line.
func (e event) write(out io.Writer) error {
	if len(e.Text) > maxEventText {
		e.Text = e.Text[:maxEventText]
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

// readEvents sends every event from r, and returns at its end. It stops sending when done is
// closed, but reads on, so that no worker ever waits for a reader.
func readEvents(r io.Reader, events chan<- event, done <-chan struct{}) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("a worker said %q: %w", lines.Text(), err)
		}
		select {
		case events <- e:
		case <-done:
		}
	}
	return lines.Err()
}
