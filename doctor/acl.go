package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mortise-go/mortise"
)

// Kind is a kind of lock, or something else that needs rights of its own.
type Kind string

// The kinds of lock, and what comes on top.
const (
	KindLock      Kind = "lock" // also SpinLock, MultiLock and Redlock
	KindFenced    Kind = "fenced"
	KindRW        Kind = "rw"
	KindFair      Kind = "fair"
	KindGroup     Kind = "group"
	KindElection  Kind = "election"
	KindBarrier   Kind = "barrier"   // also DoubleBarrier
	KindSemaphore Kind = "semaphore" // also CountDownLatch
	KindPermits   Kind = "permits"

	KindRecords Kind = "records" // what clients publish about themselves: on top of the kinds of lock
	KindInspect Kind = "inspect" // to read the state of names: on top of a kind of lock
	KindList    Kind = "list"    // to list names: on top of KindInspect
	KindTokens  Kind = "tokens"  // to find tokens that nobody uses: on top of KindFenced
	KindDoctor  Kind = "doctor"  // to examine a server: on top of kinds of lock, KindRecords and KindInspect
	KindLook    Kind = "look"    // people who only look: show, ls, who, watch, history, the dashboard
)

// row is what the rights of a kind consist of. Documents and tests have the same: see docs/protocol.md.
type row struct {
	kind     Kind
	title    string   // in docs/protocol.md
	patterns []string // of keys (~) and channels (&), without the prefix and the brace before it
	commands string
	added    bool // to those of another kind
}

const (
	turns = "~mortise:turns: &mortise:turn: "
	heard = "&redisson_lock__channel: &mortise:heeds:redisson_lock__channel: "
	token = "~redisson_lock_token: "
	op    = "~mortise:op: "
	claim = "~mortise:claim: &redisson_sc: &mortise:heeds:redisson_sc: &mortise:turn: "
	queue = "~redisson_lock_queue: ~redisson_lock_timeout: "
	tells = "~mortise:client: ~mortise:clients: ~mortise:history: "
	latch = "&redisson_countdownlatch__channel__{"
)

// rows are the rights of all kinds, in the order of docs/protocol.md.
var rows = []row{
	{kind: KindLock, title: "Lock, SpinLock, MultiLock, Redlock", patterns: strings.Fields(turns + heard),
		commands: "del exists hdel hexists hget hgetall hlen hset pexpire pttl pubsub|numsub time zadd zcard zpopmin zrank zrem zrevrangebyscore zscore"},
	{kind: KindFenced, title: "FencedLock, package fencing", patterns: strings.Fields(turns + heard + token + "~mortise:fence: " + op),
		commands: "del exists get getrange hdel hexists hget hgetall hlen hset incr persist pexpire pttl pubsub|numsub set time zadd zcard zpopmin zrank zrem zrevrangebyscore zscore"},
	{kind: KindRW, title: "RWLock", patterns: strings.Fields("&redisson_rwlock: &mortise:heeds:redisson_rwlock:"),
		commands: "del exists hdel hexists hget hgetall hlen hscan hset pexpire pttl pubsub|numsub set time"},
	{kind: KindFair, title: "FairLock", patterns: strings.Fields(queue + "~mortise:fair: ~mortise:fair_waiters: " + heard + "&mortise:fair_turn:"),
		commands: "del exists hdel hexists hget hgetall hkeys hlen hscan hset hsetnx lindex llen lpop lpush lrange lrem pexpire pttl pubsub|numsub rpush time zadd zincrby zrem zscore"},
	{kind: KindGroup, title: "GroupLock", patterns: strings.Fields(heard),
		commands: "del hdel hexists hget hgetall hlen hmget hscan hset pexpire pttl pubsub|numsub time"},
	{kind: KindElection, title: "Election", patterns: strings.Fields(token + "&mortise:election: &mortise:election_news: &mortise:heeds:mortise:election:"),
		commands: "del exists hexists hget hkeys hlen hmget hset incr persist pexpire pttl time"},
	{kind: KindBarrier, title: "Barrier, DoubleBarrier", patterns: strings.Fields("~mortise:barrier: &mortise:barrier_channel:"),
		commands: "del exists getrange hdel hexists hget hgetall hlen hset hsetnx pexpire pttl set time"},
	{kind: KindSemaphore, title: "Semaphore, CountDownLatch", patterns: strings.Fields(op + claim + latch),
		commands: "decr decrby del get getrange hdel hget hgetall hlen hset incrby pexpire pubsub|numsub set time"},
	{kind: KindPermits, title: "PermitSemaphore", patterns: strings.Fields(op + claim),
		commands: "del get getrange hdel hexists hget hgetall hlen hset incrby pexpire pttl pubsub|numsub set time zadd zcard zcount zrangebyscore zrem zscore"},

	{kind: KindRecords, added: true, title: "Records of clients, of any kind", patterns: strings.Fields(tells + "&mortise:ask: ~mortise:turns:"),
		commands: "del exists hdel hexists hget hkeys hlen hset hstrlen pexpire pttl publish pubsub|numsub spublish time type unlink xadd xlen xrevrange zadd zrange zrangebyscore zrem"},
	{kind: KindInspect, added: true, title: "`Inspect`, `State`, `mortise show`, of any kind", patterns: strings.Fields(queue + token),
		commands: "getrange hget hgetall hkeys hlen hrandfield hscan hstrlen lrange pttl time type zcard zrange zscore"},
	{kind: KindList, added: true, title: "`Locks`, `mortise ls`", commands: "scan"},
	{kind: KindTokens, added: true, title: "`TokenUses`, `ExpireTokens`, `mortise tokens`", patterns: []string{"~redisson_lock_queue:"},
		commands: "object|idletime scan llen type zcard"},
}

// looking is what people who only look need on top of KindInspect and KindList.
var looking = row{kind: KindLook, patterns: strings.Fields(tells + "~mortise:turns:"),
	commands: "hget hkeys hlen hrandfield hstrlen pubsub|numsub time type xrevrange zrange zrangebyscore"}

// examining is what an examination needs on top of the kinds of lock that are in use, KindRecords and KindInspect.
var examining = row{kind: KindDoctor, added: true, title: "`mortise doctor`",
	commands: "acl|whoami client|list cluster|info config|get dbsize info object|idletime pttl scan type"}

const (
	connecting = "+evalsha +eval +hello +ping +client|id +client|setname"
	messaging  = "+publish +spublish +subscribe +unsubscribe +ssubscribe +sunsubscribe"
	clustered  = "+cluster|slots +cluster|shards +pubsub|shardnumsub"
)

// Kinds returns all kinds: those of locks, then those that come on top.
func Kinds() (list []Kind) {
	for _, r := range rows {
		list = append(list, r.kind)
	}
	return append(list, KindDoctor, KindLook)
}

// kindsText names all kinds.
func kindsText() string {
	var words []string
	for _, k := range Kinds() {
		words = append(words, string(k))
	}
	return strings.Join(words, ", ")
}

// Title returns the names of what a kind is for, as in documents.
func (k Kind) Title() string {
	switch r := k.row(); {
	case k == KindLook:
		return "people who only look"
	case r != nil:
		return strings.ReplaceAll(r.title, "`", "")
	}
	return ""
}

// OnTop reports whether the rights of a kind come on top of those of a kind of lock.
func (k Kind) OnTop() bool { r := k.row(); return r != nil && r.added }

// hears reports whether a kind needs messages.
func (k Kind) hears() bool {
	return slices.ContainsFunc(k.row().patterns, func(p string) bool { return p[0] == '&' })
}

func (k Kind) row() *row {
	switch k {
	case KindDoctor:
		return &examining
	case KindLook:
		return &looking
	}
	for i := range rows {
		if rows[i].kind == k {
			return &rows[i]
		}
	}
	return nil
}

// Rule is a rule of an ACL that gives a user the rights that locks need.
type Rule struct {
	User string
	// Prefix is what the names of the locks begin with, by themselves or by mortise.Options.Prefix. If it
	// is empty, the user may use all keys.
	Prefix string
	Kinds  []Kind
	// Cluster adds what a cluster needs.
	Cluster bool
	// Add makes a rule that only adds to the rights that the user has.
	Add bool
}

// Words returns the command that gives the rights: ACL, SETUSER and so on. The words are those of Redis
// 7.0, Valkey and later. With a kind of lock, or [KindLook], and without Add, the rule makes the user, with the password SECRET,
// and takes all other rights from it; otherwise it adds to the rights that it has. The rights are what the
// scripts of mortise need, and no others: Redisson's clients need more.
//
// The error matches mortise.ErrInvalid: for a kind that is not known, and for a user or prefix that a rule
// cannot have.
func (r Rule) Words() ([]string, error) {
	if len(r.Kinds) == 0 {
		return nil, fmt.Errorf("doctor: %w: no kind of lock; there are %s", mortise.ErrInvalid, kindsText())
	}
	for what, text := range map[string]string{"user": r.User, "prefix": r.Prefix} {
		if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
			return nil, fmt.Errorf("doctor: %w: a rule cannot have spaces or control characters, as in the %s %q", mortise.ErrInvalid, what, text)
		}
	}
	if r.User == "" {
		return nil, fmt.Errorf("doctor: %w: no user", mortise.ErrInvalid)
	}
	wanted, base, talks := []*row{}, false, false
	for _, kind := range r.Kinds {
		one := kind.row()
		switch {
		case one == nil:
			return nil, fmt.Errorf("doctor: %w: there is no kind of lock called %q; there are %s", mortise.ErrInvalid, string(kind), kindsText())
		case kind == KindLook:
			base = true
			wanted = append(wanted, one, KindInspect.row(), KindList.row())
			continue
		case !one.added:
			base, talks = true, true
		}
		wanted = append(wanted, one)
	}
	return r.words(wanted, base, talks), nil
}

func (r Rule) words(wanted []*row, base, talks bool) []string {
	words := []string{"ACL", "SETUSER", r.User}
	prefix := literal.Replace(r.Prefix)
	if base && !r.Add {
		words = append(words, "on", ">SECRET", "resetkeys")
	}
	if base {
		words = append(words, "~"+prefix+"*")
		if prefix != "" {
			words = append(words, "~{"+prefix+"*")
		}
		if !r.Add {
			words = append(words, "resetchannels", "nocommands")
		}
		words = append(words, strings.Fields(connecting)...)
		if talks {
			words = append(words, strings.Fields(messaging)...)
		}
		if r.Cluster {
			words = append(words, strings.Fields(clustered)...)
		}
	}
	var patterns, commands []string
	for _, one := range wanted {
		for _, p := range one.patterns {
			if r.Prefix != "" || p[0] == '&' {
				patterns = append(patterns, both(p, prefix)...)
			}
		}
		for command := range strings.FieldsSeq(one.commands) {
			commands = append(commands, "+"+command)
		}
	}
	if len(wanted) > 1 || wanted[0].kind != KindTokens { // docs have that one as its scripts use them
		slices.Sort(commands)
	} else { // the commands of that row come first
		return unique(append(append(words, commands...), patterns...))
	}
	return unique(append(append(words, patterns...), commands...))
}

// both returns the patterns for names that are wrapped in braces, and for those that have some.
func both(pattern, prefix string) []string {
	if pattern == latch {
		return []string{pattern + prefix + "*", pattern + "{" + prefix + "*"}
	}
	return []string{pattern + "{" + prefix + "*", pattern + prefix + "*"}
}

// literal makes a pattern of Redis that matches only the text itself.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// unique removes words that were there before.
func unique(words []string) []string {
	seen := make(map[string]bool)
	return slices.DeleteFunc(words, func(w string) bool {
		before := seen[w]
		seen[w] = true
		return before
	})
}
