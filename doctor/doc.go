// Package doctor examines a Redis, and what lies in it, for what makes locks fail: its settings, the
// rights of the user, messages, clocks, and locks, queues and permits that nobody has any more. It is
// what `mortise doctor` shows.
//
// A [Report] has a [Finding] for each thing that was looked at, also for what is in order. What cannot be
// examined, because a right is missing or the server does not know the command, is [Unknown], and says
// which rule would allow it. Nothing is changed unless [Options.Fix] names a finding.
//
// Package doctor also has the rights that each kind of lock needs, as rules of an ACL: see [Rule].
package doctor
