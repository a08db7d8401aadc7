// Package guard runs a command while something is held, a lock, a permit or the
// lead of an election, and ends the command, with every process that it has
// started, before another client can hold it.
//
// mortise run and mortise elect call it: they hold something, call [Start] and
// then [Child.Wait], and release what they hold. The package knows the hold by
// its context and by the time until which it lasts; it knows no lock, writes
// nothing and reads no flags.
//
// The command has a process group of its own. Signals go to that group, the
// terminal is lent to it, and a stop (Ctrl-Z) of the command stops this process
// as well, because a stopped process cannot guard one that runs. On Linux the
// processes that leave the group are found through /proc and end with it, and
// the kernel kills the command when this process is killed.
//
// Start and Wait work on Unix systems only. They take over the children and the
// terminal of the whole process: one command is guarded at a time.
package guard

import "time"

// Hold is what the command runs under.
type Hold interface {
	// Until returns the time until which it lasts unless it is renewed.
	Until() time.Time
}

// Observer is told what a caller may want to tell people.
type Observer interface {
	// Lost reports that the hold was lost. The command is ended now, unless the
	// plan lets it go on.
	Lost(cause error)
	// Stopped reports that the command was stopped, and that this process stops
	// too. The hold lasts as long as left says if neither is continued.
	Stopped(left time.Duration)
	// Undying reports that processes of the command were killed and are alive
	// all the same. An error says why they cannot be killed, if that is known.
	Undying(err error)
}
