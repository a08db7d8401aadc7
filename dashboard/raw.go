package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/watch"
)

// rawKey is a key of a lock in Redis.
type rawKey struct {
	What    string
	Command string // that shows it
}

// rawKeys returns what lies in Redis for a lock under a name with its prefix.
func (b *Dashboard) rawKeys(key string, l *watch.Lock, s *mortise.State) []rawKey {
	ask := func(words ...string) string {
		for i, w := range words {
			words[i] = shellWord(w)
		}
		return b.redisCLI() + " " + strings.Join(words, " ")
	}
	if counts(l.Kind) || s.Kind == mortise.KindNumber || s.Kind == mortise.KindPermits {
		list := []rawKey{{"the number", ask("GET", key)}}
		if l.Kind == "permitsemaphore" || s.Kind == mortise.KindPermits {
			list = append(list, rawKey{"the permits that are held, and when they expire", ask("ZRANGE", keyspace.PermitExpiries(key), "0", "-1", "WITHSCORES")})
		}
		return append(list, rawKey{"how many wait for permits", ask("PUBSUB", "NUMSUB", keyspace.SemaphoreChannel(key))})
	}
	list := []rawKey{
		{"the holders, and how often each holds it", ask("HGETALL", key)},
		{"what the lease has left, in ms", ask("PTTL", key)},
	}
	kinds := []string{l.Kind, string(s.Kind)}
	if is := func(kind string) bool { return slices.Contains(kinds, kind) }; is("fairlock") {
		list = append(list, rawKey{"the queue, the next one first", ask("LRANGE", keyspace.FairQueue(key), "0", "-1")},
			rawKey{"when Redisson gives up on each of them", ask("ZRANGE", keyspace.FairDeadlines(key), "0", "-1", "WITHSCORES")})
	} else if !strings.HasPrefix(l.Kind, "rwlock") && s.Kind != mortise.KindElection {
		list = append(list, rawKey{"whose turn is next", ask("ZRANGE", keyspace.Turns(key), "0", "-1", "WITHSCORES")})
	}
	if slices.Contains(kinds, "fencedlock") {
		list = append(list, rawKey{"the newest token", ask("GET", keyspace.Token(key))})
	}
	channel := keyspace.LockChannel(key)
	switch {
	case strings.HasPrefix(l.Kind, "rwlock") || s.Kind == mortise.KindRWLock:
		channel = keyspace.RWChannel(key)
	case s.Kind == mortise.KindElection:
		channel = keyspace.ElectionChannel(key)
	}
	return append(list, rawKey{"how many listen for a release", ask("PUBSUB", "NUMSUB", channel)},
		rawKey{"its last acquisitions", ask("XREVRANGE", keyspace.History(key), "+", "-", "COUNT", "10")})
}

// commands returns the commands that say more about a lock, or release it.
func (b *Dashboard) commands(name string, held bool) []string {
	end := ""
	if prefix := b.options.Prefix; prefix != "" {
		end = " --prefix " + shellWord(prefix)
	}
	word := shellWord(name)
	if strings.HasPrefix(word, "-") {
		word = "-- " + word
	}
	list := []string{b.mortise() + " show" + end + " " + word}
	if held {
		list = append(list, b.mortise()+" unlock --ask --wait 10s"+end+" "+word)
	}
	return list
}

// mortise returns how a command line begins that runs mortise.
func (b *Dashboard) mortise() string { return cmp.Or(b.options.Mortise, "mortise") }

// redisCLI returns how a command line begins that runs redis-cli.
func (b *Dashboard) redisCLI() string {
	if b.options.RedisCLI == nil {
		return "redis-cli"
	}
	return b.options.RedisCLI("")
}

// addressNote says what is to be added to commands, as far as the dashboard does not know which Redis it looks at.
func (b *Dashboard) addressNote() string {
	const all = "They are to be run against the Redis that this dashboard looks at: "
	switch cli, own := b.options.RedisCLI != nil, b.options.Mortise != ""; {
	case cli && own:
		return ""
	case own:
		return all + "give redis-cli its address with -h and -p."
	case cli:
		return all + "give mortise its URL with --redis."
	}
	return all + "give redis-cli its address with -h and -p, and mortise its URL with --redis."
}
