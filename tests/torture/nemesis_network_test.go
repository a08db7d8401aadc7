package torture

import (
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// some calls f for the links of some of the clients, and returns how many connections they have.
func (r *round) some(f func(p *redistest.Proxy)) (connections int) {
	chosen := r.random.IntN(1<<len(r.clients)-1) + 1
	for i, c := range r.clients {
		if chosen&(1<<i) == 0 {
			continue
		}
		for _, p := range c.links {
			connections += p.Connections()
			f(p)
		}
	}
	return connections
}

func (r *round) flow() {
	for _, c := range r.clients {
		for _, p := range c.links {
			p.Flow()
		}
	}
}

// blackHole swallows everything for a while; then what was sent arrives late.
func blackHole(r *round) int {
	n := r.some(func(p *redistest.Proxy) { p.Stall(redistest.Requests, redistest.Replies) })
	time.Sleep(r.length())
	r.flow()
	return n
}

// oneWay swallows one direction.
func oneWay(r *round) int {
	way := redistest.Direction(r.random.IntN(2))
	n := r.some(func(p *redistest.Proxy) { p.Stall(way) })
	time.Sleep(r.length())
	r.flow()
	return n
}

// strand makes connections silent forever; new ones work.
func strand(r *round) int {
	n := r.some((*redistest.Proxy).Strand)
	time.Sleep(r.length())
	return n
}

// reset closes connections, again and again.
func reset(r *round) (n int) {
	for range 1 + r.random.IntN(10) {
		n += r.some((*redistest.Proxy).CutAll)
		r.pause(0, 50*time.Millisecond)
	}
	return n
}

// refuse closes connections and refuses new ones.
func refuse(r *round) int {
	var refused []*redistest.Proxy
	n := r.some(func(p *redistest.Proxy) {
		p.Refuse()
		p.CutAll()
		refused = append(refused, p)
	})
	time.Sleep(r.length())
	for _, p := range refused {
		p.Accept(r.t)
	}
	return n
}

// delay makes the network slow.
func delay(r *round) int {
	d := r.upTo(r.ttl / 3)
	n := r.some(func(p *redistest.Proxy) { p.Delay(d) })
	time.Sleep(r.length())
	for _, c := range r.clients {
		for _, p := range c.links {
			p.Delay(0)
		}
	}
	return n
}

// loseReplies cuts connections between a script and its reply.
func loseReplies(r *round) (n int) {
	script := "EVALSHA"
	if r.driver == "goredis" {
		script = "evalsha"
	}
	for range 5 + r.random.IntN(20) {
		var lost []<-chan struct{}
		nth := 1 + r.random.IntN(4)
		r.some(func(p *redistest.Proxy) { lost = append(lost, p.LoseReply(script, nth)) })
		r.pause(5*time.Millisecond, 60*time.Millisecond)
		for _, l := range lost {
			select {
			case <-l:
				n++
			default:
			}
		}
	}
	return n
}
