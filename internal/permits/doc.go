// Package permits has what semaphores, latches and barriers need beyond locks: numbers in Redis, without owners.
//
// A number has no owner by which Redis could distinguish a repeat of a script from a new call. So each operation has a lane and a serial
// number, and Redis remembers by them, for [script.Remembered], what it did (permits.go). What other parties count, such as an arrival at
// a barrier, is undone before the failing call returns (undo.go). Who waits for a number, or for news on a channel, is a goroutine in the
// queue of its client, as for a lock, and sleeps in the same loop of package waiting (permits.go, follow.go).
//
// It must not know what a semaphore or a latch is: the scripts, and what their answers mean, are those of package mortise.
//
// [Numbers] has one mutex, for the lanes, and one for the scripts that undo. Neither is held while Redis is asked.
package permits
