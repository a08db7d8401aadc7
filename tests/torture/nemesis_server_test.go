package torture

import (
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// one returns one of the masters.
func (r *round) one() *redistest.Server {
	all := r.masters(r.t)
	return all[r.random.IntN(len(all))]
}

// flushScripts makes Redis forget its scripts, again and again.
func flushScripts(r *round) (n int) {
	for range 20 {
		s := r.one()
		known, _ := s.Info("memory", "number_of_cached_scripts")
		if known != "0" {
			n++
		}
		s.Must(r.t, "SCRIPT", "FLUSH")
		r.pause(0, 20*time.Millisecond)
	}
	return n
}

// killNormal closes the connections on which clients send scripts.
func killNormal(r *round) int { return r.killClients("normal") }

// killPubSub closes the connections on which clients listen.
func killPubSub(r *round) int { return r.killClients("pubsub") }

func (r *round) killClients(kind string) (n int) {
	for range 1 + r.random.IntN(5) {
		for _, s := range r.masters(r.t) {
			if reply, err := s.Do("CLIENT", "KILL", "TYPE", kind); err == nil {
				k, _ := reply.(int64)
				if kind == "normal" {
					k-- // the recorder's
				}
				n += max(int(k), 0)
			}
		}
		r.pause(0, 100*time.Millisecond)
	}
	return n
}

// freezeServer stops a server. Its clock goes on.
func freezeServer(r *round) int {
	s := r.one()
	s.Pause(r.t)
	time.Sleep(r.length())
	s.Resume(r.t)
	return 1
}

// held returns the things that are in use, of those kinds of lock that are one key of their name.
func (r *round) held() (sections []*section) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.places {
		if s.section != nil {
			sections = append(sections, s.section)
		}
	}
	return sections
}

// outOfMemory leaves no memory: nothing can be acquired, but what is held can be kept and released.
func outOfMemory(r *round) int {
	masters := r.masters(r.t)
	before := r.errors("OOM")
	for _, s := range masters {
		s.Must(r.t, "CONFIG", "SET", "maxmemory", "1")
	}
	time.Sleep(r.length())
	for _, s := range masters {
		s.Must(r.t, "CONFIG", "SET", "maxmemory", "0")
	}
	return r.errors("OOM") - before
}

// errors returns how often the servers have replied an error of a kind.
func (r *round) errors(kind string) (n int) {
	for _, s := range r.servers {
		text, err := s.Info("errorstats", "errorstat_"+kind)
		if err != nil {
			continue
		}
		var k int
		if _, err := fmt.Sscanf(text, "count=%d", &k); err == nil {
			n += k
		}
	}
	return n
}

// readOnly makes a server a replica of nobody for a while: it keeps its data and refuses writes.
func readOnly(r *round) int {
	before := r.errors("READONLY")
	r.master.Must(r.t, "REPLICAOF", "127.0.0.1", fmt.Sprint(redistest.FreePort(r.t)))
	time.Sleep(r.length())
	r.master.Must(r.t, "REPLICAOF", "NO", "ONE")
	return r.errors("READONLY") - before
}

// denyRights takes some rights away for a while.
func denyRights(r *round) int {
	rights := [][]string{{"-evalsha", "-eval"}, {"-subscribe", "-ssubscribe"}, {"-publish", "-spublish"}, {"resetchannels"}, {"-pexpire"}, {"-hset"}}
	masters := r.masters(r.t)
	before := r.errors("NOPERM") + r.errors("ERR")
	for _, s := range masters {
		s.Must(r.t, append([]string{"ACL", "SETUSER", "default"}, rights[r.random.IntN(len(rights))]...)...)
	}
	r.pause(50*time.Millisecond, r.ttl)
	for _, s := range masters {
		s.Must(r.t, "ACL", "SETUSER", "default", "on", "nopass", "~*", "&*", "+@all")
	}
	return r.errors("NOPERM") + r.errors("ERR") - before
}

// forge publishes on all channels what clients of mortise and Redisson say, and what nobody says.
func forge(r *round) (n int) {
	messages := []string{"0", "1", "?", "-1", "9223372036854775807", "", "x", "{}", "0:1", "00000000-0000-8000-8000-000000000000:1 1", strings.Repeat("9", 1000)}
	for end := time.Now().Add(r.length()); time.Now().Before(end); {
		for _, s := range r.masters(r.t) {
			for _, list := range [][2]string{{"CHANNELS", "PUBLISH"}, {"SHARDCHANNELS", "SPUBLISH"}} {
				channels, err := s.Do("PUBSUB", list[0])
				if err != nil {
					continue
				}
				for _, c := range channels.([]any) {
					if strings.HasPrefix(fmt.Sprint(c), "__sentinel__") {
						continue
					}
					for range 20 {
						heard, err := s.Do(list[1], fmt.Sprint(c), messages[r.random.IntN(len(messages))])
						if k, ok := heard.(int64); err == nil && ok {
							n += int(k)
						}
					}
				}
			}
		}
	}
	return n
}
