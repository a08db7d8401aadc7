// Package mortiseprom has metrics of mortise for Prometheus.
//
// A [Collector] is both: an observer of clients, and a collector of a registry.
//
//	metrics := mortiseprom.New(nil)
//	prometheus.MustRegister(metrics)
//	client := mortise.New(connection, &mortise.Options{Observer: metrics})
//
// One Collector serves all clients of a process. To tell them apart, make one for each, and
// register it with labels of its own, with [prometheus.WrapRegistererWith].
//
// # Metrics
//
//	dlock_acquire_duration_seconds  histogram  kind, outcome, contended  how long a call took until it had the lock, or had failed
//	dlock_hold_duration_seconds     histogram  kind, end                 how long a hold lasted
//	dlock_waiters                   gauge      kind                      calls that wait for other owners now
//	dlock_held                      gauge      kind                      holds there are now, re-entries included
//	dlock_lost_total                counter    kind, reason              holds that were lost
//	dlock_renewals_total            counter    outcome                   renewals of a lease
//	dlock_lease_margin_seconds      histogram                            for how long the most urgent lease of a renewal would still have been trusted
//	dlock_subscription_gaps_total   counter                              interruptions of a subscription
//	dlock_deadlocks_total           counter                              waits of this process that are part of a deadlock
//	dlock_pause_seconds             histogram                            how long the process stood still while it held locks
//	dlock_asked_total               counter                              requests to release a lock
//
// The kind is that of [mortise.Event], such as lock or rwlock.read. A call is contended, "true",
// if it has waited for other owners. Its outcome is one of
//
//	acquired  it has the lock
//	locked    others have the lock, and it does not wait
//	timeout   its wait was over, and others have the lock
//	canceled  its context was canceled
//	deadlock  its wait was ended because it was part of a deadlock
//	error     anything else; above all, Redis could not be reached
//
// A hold ends by being released; expired, by its MaxHold; or lost. The reason of a loss is that of
// [mortise.LostError]; closed, if the client was closed under the hold; or other. Renewals are
// renewed or failed. A plain [mortise.Semaphore] and a latch have calls and waiters, but no holds, and a
// [mortise.Barrier] has no metrics. A deadlock of two processes can count once in each.
//
// A call that still waits is in dlock_waiters, and in no histogram yet.
//
// # What alerts need
//
// Counters that count rare things are there with the value 0 from the beginning, so that increase
// sees the first: the losses of each kind for each reason, the renewals and the deadlocks. With
// [Options.Name] the losses of a name are there from its first call on. The files
// grafana.json and alerts.yml, next to this one, have a dashboard and rules for alerts that use
// these metrics.
package mortiseprom
