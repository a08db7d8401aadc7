package doctor

import (
	"fmt"
	"slices"
)

// Severity says how bad a finding is.
type Severity string

// The severities, the least bad first.
const (
	OK       Severity = "ok"       // as it should be
	Info     Severity = "info"     // worth knowing; nothing need be done
	Unknown  Severity = "unknown"  // could not be examined
	Warning  Severity = "warning"  // locks work, and will fail or be slow in some situation
	Critical Severity = "critical" // locks fail, or can be held by two owners
)

var severities = []Severity{OK, Info, Unknown, Warning, Critical}

func (s Severity) rank() int { return slices.Index(severities, s) }

// Group is the part of a deployment that a finding is about.
type Group string

// The groups, in the order in which a Report has them.
const (
	GroupConnection  Group = "connection"
	GroupServer      Group = "server"
	GroupTopology    Group = "topology"
	GroupPersistence Group = "persistence"
	GroupMemory      Group = "memory"
	GroupConnections Group = "connections" // limits of the server for its clients
	GroupMessages    Group = "messages"
	GroupRights      Group = "rights"
	GroupKeys        Group = "keys"    // what lies in Redis
	GroupClients     Group = "clients" // what mortise's clients publish
)

// Finding is the outcome of looking at one thing. Its JSON form is stable.
type Finding struct {
	// ID is the name of what was looked at. It stays the same from version to version.
	ID       string   `json:"id"`
	Group    Group    `json:"group"`
	Severity Severity `json:"severity"`
	// Server is the address of the server that it is about; of several, with commas between them. It is
	// empty if it is about all of them, or there is only one.
	Server string `json:"server,omitempty"`
	// Found says what was found, and Do what to do. Names in them are quoted, and cut.
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
	// Command is the exact command to run, for a shell that bash, zsh and ksh are; a line for each
	// command. Lines for redis-cli begin with [Options.RedisCLI], and need its flags for user and password.
	Command string `json:"command,omitempty"`
	// Names are those of the locks, semaphores or clients that it is about, ten at most; Count is how many
	// there are. The names are as they are in Redis, without the prefix: anybody may have written them.
	Names []string `json:"names,omitempty"`
	Count int      `json:"count,omitempty"`
	// Fixable is true if [Options.Fix] can mend it, at least in part.
	Fixable bool `json:"fixable,omitempty"`
	// Accepted is true if [Options.Accept] names it: it does not count for [Report.Worst].
	Accepted bool `json:"accepted,omitempty"`
}

// Fixed is what Options.Fix has changed under one name.
type Fixed struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Did  string `json:"did"`
}

// Report is what an examination has found. Its JSON form is stable.
type Report struct {
	Findings []Finding `json:"findings"`
	Worst    Severity  `json:"worst"` // of the findings that are not accepted
	// Looked is how many keys were looked at, about, and Keys how many there are; -1 if that is not known.
	Looked int64 `json:"keys_looked_at"`
	Keys   int64 `json:"keys"`
	// Fixed is what was mended.
	Fixed []Fixed `json:"fixed,omitempty"`
	// Err is why the server could not be examined at all; nil if it could.
	Err error `json:"-"`
}

// Find returns the findings with that id.
func (r *Report) Find(id string) (found []Finding) {
	for _, f := range r.Findings {
		if f.ID == id {
			found = append(found, f)
		}
	}
	return found
}

// finish puts the findings in order, and says what is the worst.
func (r *Report) finish(accept []string) {
	order := []Group{GroupConnection, GroupServer, GroupTopology, GroupPersistence, GroupMemory, GroupConnections, GroupMessages, GroupRights, GroupKeys, GroupClients}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return slices.Index(order, a.Group) - slices.Index(order, b.Group)
	})
	r.Worst = OK
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Accepted = slices.Contains(accept, f.ID)
		if !f.Accepted && f.Severity.rank() > r.Worst.rank() {
			r.Worst = f.Severity
		}
	}
}

// mostNames is how many names a finding has.
const mostNames = 10

// about adds names to a finding.
func (f Finding) about(names []string) Finding {
	f.Count = len(names)
	f.Names = names[:min(len(names), mostNames)]
	return f
}

// several returns "1 lock", or "n locks".
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
