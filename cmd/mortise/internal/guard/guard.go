// Package guard runs a command while something is held, a lock, a permit or the lead of an
// election, and ends the command, with every process that it has started, before another client can
// hold it.
//
// mortise run and mortise elect call [Prepare], hold something, call [Start] and then [Child.Wait],
// and release what they hold. The package knows the hold by its context and by the time until which
// it lasts; it does not know locks, writes nothing and reads no flags.
//
// The command has a process group of its own. Signals go to that group, the terminal is lent to it,
// and a stop (Ctrl-Z) of the command also stops this process, because a stopped process cannot
// guard one that runs. On Linux, processes that leave the group are found through /proc and end
// with it.
//
// Between this process and the command there is a guard process, the same program started once more
// ([Prepare]): it kills the command when this process is killed, or is stopped for longer than the
// hold lasts. If both are killed, Linux kills the command, though not what it has started.
//
// Start and Wait work only on Unix systems. They take over the children and the terminal of the
// whole process: one command is guarded at a time.
package guard

import "time"

// Hold is the hold under which the command runs.
type Hold interface {
	// Until returns the time until which it lasts unless it is renewed.
	Until() time.Time
}

// Observer receives events that a caller may want to report to its user.
type Observer interface {
	// Lost reports that the hold was lost. The command is ended now, unless the
	// plan lets it go on.
	Lost(cause error)
	// Stopped reports that the command was stopped, and that this process stops too. If neither is
	// continued, the hold lasts for left.
	Stopped(left time.Duration)
	// Undying reports that processes of the command were killed but are still alive. An error says
	// why they cannot be killed, if that is known.
	Undying(err error)
	// Unguarded reports that the guard process was killed. The command is ended now.
	Unguarded()
}
