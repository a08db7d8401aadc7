// Package mortisetest lets tests break what locks rely on: it embeds a Redis whose network and
// server fail on demand.
//
// A lock in Redis can be lost while its holder works, and nothing but a test shows what the
// holder's code does then. Such a test needs no Redis server, and takes no real time in a
// [testing/synctest] bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		server := mortisetest.NewServer()
//		defer server.Close()
//		link := server.Link() // the network between one client and the server
//		client := mortise.New(link, nil)
//		defer client.Close()
//		…
//		link.Partition() // from here on, no call gets through
//
// The example of the package shows a job that goes on writing after its lock was lost, the test
// that finds that, and the job mended.
//
// # What can fail
//
// Of one client's network, methods of [Link]:
//
//   - calls ([Link.Next], [Link.OnCall]): the request is lost, or the reply after the script has
//     run; there is no connection; request or reply is late, so that a script may run after its
//     client has given up; the server refuses the script with an error reply;
//   - messages ([Link.OnMessage], [Link.Forge]): lost, late, doubled, forged;
//   - everything: [Link.Partition], [Link.Freeze], [Link.Cut].
//
// Of the server, methods of [Server]: a failover that forgets writes, a restart without its data,
// a key that vanishes, scripts that are flushed, a clock that jumps, error replies.
//
// [Link.Chaos] and [Server.Chaos] draw such faults at random from a seed; [Server.Hits] counts
// what has happened.
//
// # What must hold nevertheless
//
// A [History] records what clients asked for and got, and checks it: that no two had one lock at
// once, that tokens rise, that a barrier opens when all have arrived. A test that lets several
// clients contend while things fail needs no more than that:
//
//	hold, lctx, err := history.Lock(ctx, "worker 1", client.Lock("report"))
//	…
//	history.Check(t)
//
// Whether the work under the lock overlaps is another question: the work may go on when the lock is
// lost. The example about chaos records the work itself, with [History.Claim].
//
// A history has to know what takes promises away. [History.Watch] lets it learn from the server what that
// loses; for another server, [History.Forgot] tells it. [History.Disturbed] tells it when a link was so bad
// that waiters may have lost their places.
//
// # Time
//
// In a bubble, time moves only when all goroutines in it wait, and whatever a test does takes no real
// time. Create the server, its links and the clients inside the bubble, and close the clients and
// the server before it ends. Otherwise the Go runtime ends the test: "sync: WaitGroup.Add called from
// inside and outside synctest bubble" means that the server was created outside, and "main bubble
// goroutine has exited but blocked goroutines remain" that a client or the server was not closed.
//
// The order in which goroutines that could run do so is not determined: a run with faults drawn
// from a seed repeats them as long as the goroutines make the same calls.
//
// Outside a bubble the package works in real time, and a History needs a Latency: see there.
//
// # What it does not simulate
//
// The server is that of package memredis, a single one in the memory of the process. It has no
// replicas to acknowledge writes, so locks with a Durability cannot be acquired, and it is no
// cluster. A process that is stopped can be simulated as others see it, not as it sees itself: see
// [Link.Freeze]. Errors have the classes that those of go-redis and rueidis have, not the texts.
package mortisetest
