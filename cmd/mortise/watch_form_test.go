package main

import (
	"time"
)

// partyLine, eventLine, noteLine and summaryLine are what docs/watch.md says of JSON.
type partyLine struct {
	Owner   string `json:"owner"`
	Client  string `json:"client"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	App     string `json:"app"`
	Command string `json:"command"`
}

type eventLine struct {
	Type   string     `json:"type"`
	Time   time.Time  `json:"time"`
	Seen   time.Time  `json:"seen"`
	Lock   *string    `json:"lock"`
	Kind   *string    `json:"kind"`
	Holder *partyLine `json:"holder"`
	Waiter *partyLine `json:"waiter"`
	From   *partyLine `json:"from"`
	For    *partyLine `json:"for"`
	Token  int64      `json:"token"`
	Waited *int64     `json:"waited_ms"`
	Held   *int64     `json:"held_ms"`
	Unsure bool       `json:"unsure"`
	Why    string     `json:"why"`
	By     string     `json:"by"`
	Reason string     `json:"reason"`
}

type noteLine struct {
	Type    string    `json:"type"`
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

type longestLine struct {
	For   int64     `json:"ms"`
	Party partyLine `json:"party"`
}

type summaryLine struct {
	Type   string     `json:"type"`
	Time   *time.Time `json:"time"`
	Took   int64      `json:"took_ms"`
	Events int        `json:"events"`
	Locks  []struct {
		Lock         string       `json:"lock"`
		Acquisitions int          `json:"acquisitions"`
		Lost         int          `json:"lost"`
		GaveUp       int          `json:"gave_up"`
		LongestWait  *longestLine `json:"longest_wait"`
		LongestHold  *longestLine `json:"longest_hold"`
		Holders      int          `json:"holders"`
		Waiters      int          `json:"waiters"`
	} `json:"locks"`
	Looks    int   `json:"looks"`
	Every    int64 `json:"look_every_ms"`
	Longest  int64 `json:"longest_pause_ms"`
	Unseen   int64 `json:"unseen_below_ms"`
	Commands int64 `json:"commands"`
	Search   *struct {
		Passes int    `json:"passes"`
		Took   int64  `json:"took_ms"`
		Keys   int64  `json:"keys"`
		Failed string `json:"failed"`
	} `json:"search"`
}
