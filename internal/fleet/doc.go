// Package fleet runs a fleet of lively clients in one process, for demonstrations and for tests of what
// shows them: each client seems to be a process of its own, on a machine of its own. They hold, wait for
// and hand over locks of every kind that one server can have.
//
// What is there to see is a [Scene]. Most scenes are always there; some come and go, and [Fleet.Scene]
// brings one of them about and keeps it up.
//
// The clients are real: whatever a page or a command does to them has the effect that it has on any
// client. A hold that is asked for is released, and the deploy that waited for it gets on.
//
// The names of the locks are the fleet's own, and it deletes what would stay behind. So it is not for a
// Redis in which others have locks, unless its [Options.Prefix] keeps them apart.
package fleet
