package keyspace

import (
	"errors"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
)

func TestLockChannelFollowsRedissonsBraceRule(t *testing.T) {
	for name, want := range map[string]string{
		"job":       "redisson_lock__channel:{job}",
		"{t}:x":     "redisson_lock__channel:{t}:x",
		"x{t}y":     "redisson_lock__channel:x{t}y",
		"a{b}c{d}":  "redisson_lock__channel:a{b}c{d}",
		"order: 42": "redisson_lock__channel:{order: 42}",
	} {
		if got := LockChannel(name); got != want {
			t.Errorf("LockChannel(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestFairNamesFollowRedissonsBraceRule(t *testing.T) {
	for name, want := range map[string][3]string{
		"job":      {"redisson_lock_queue:{job}", "redisson_lock_timeout:{job}", "redisson_lock__channel:{job}:a:1"},
		"{t}:x":    {"redisson_lock_queue:{t}:x", "redisson_lock_timeout:{t}:x", "redisson_lock__channel:{t}:x:a:1"},
		"a{b}c{d}": {"redisson_lock_queue:a{b}c{d}", "redisson_lock_timeout:a{b}c{d}", "redisson_lock__channel:a{b}c{d}:a:1"},
	} {
		if got := [3]string{FairQueue(name), FairDeadlines(name), FairChannel(name, "a:1")}; got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestRWNamesFollowRedissonsBraceRule(t *testing.T) {
	for name, want := range map[string][2]string{
		"job":      {"redisson_rwlock:{job}", "{job}"},
		"{t}:x":    {"redisson_rwlock:{t}:x", "{t}:x"},
		"a{b}c{d}": {"redisson_rwlock:a{b}c{d}", "a{b}c{d}"},
	} {
		if got := [2]string{RWChannel(name), RWHolds(name)}; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestBarrierNamesFollowTheBraceRule(t *testing.T) {
	for name, want := range map[string][2]string{
		"job":      {"mortise:barrier:{job}", "mortise:barrier_channel:{job}"},
		"{t}:x":    {"mortise:barrier:{t}:x::", "mortise:barrier_channel:{t}:x::"},
		"a{b}c{d}": {"mortise:barrier:a{b}c{d}::", "mortise:barrier_channel:a{b}c{d}::"},
	} {
		if got := [2]string{BarrierOutcomes(name), BarrierChannel(name)}; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestElectionNamesFollowTheBraceRule(t *testing.T) {
	for name, want := range map[string][3]string{
		"job":      {"redisson_lock_token:{job}", "mortise:election:{job}", "mortise:election_news:{job}"},
		"{t}:x":    {"redisson_lock_token:{t}:x", "mortise:election:{t}:x::", "mortise:election_news:{t}:x::"},
		"a{b}c{d}": {"redisson_lock_token:a{b}c{d}", "mortise:election:a{b}c{d}::", "mortise:election_news:a{b}c{d}::"},
	} {
		if got := [3]string{Token(name), ElectionChannel(name), ElectionNews(name)}; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestSemaphoreNamesFollowTheBraceRule(t *testing.T) {
	for name, want := range map[string][3]string{
		"job":      {"redisson_sc:{job}", "mortise:claim:{job}", "mortise:op:{job}:1f"},
		"{t}:x":    {"redisson_sc:{t}:x", "mortise:claim:{t}:x::", "mortise:op:{t}:x:::1f"},
		"a{b}c{d}": {"redisson_sc:a{b}c{d}", "mortise:claim:a{b}c{d}::", "mortise:op:a{b}c{d}:::1f"},
	} {
		if got := [3]string{SemaphoreChannel(name), Claims(name), Operation(name, "1f")}; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// A client's record and its channel are in one slot, and no two prefixes share a record or an index.
func TestClientNamesFollowTheBraceRule(t *testing.T) {
	const client = "a1000000-0000-8000-8000-000000000001"
	seen := map[string]string{}
	for prefix, want := range map[string][3]string{
		"":       {"mortise:client:{" + client + "}", "mortise:clients:{all}", "mortise:ask:{" + client + "}"},
		"app:":   {"mortise:client:{app:" + client + "}", "mortise:clients:{app:all}", "mortise:ask:{app:" + client + "}"},
		"all":    {"mortise:client:{all" + client + "}", "mortise:clients:{allall}", "mortise:ask:{all" + client + "}"},
		"{app}:": {"mortise:client:{app}:" + client + "::", "mortise:clients:{app}:all::", "mortise:ask:{app}:" + client + "::"},
	} {
		got := [3]string{ClientRecord(prefix, client), ClientIndex(prefix), ClientChannel(prefix, client)}
		if got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
		if Slot(got[0]) != Slot(got[2]) {
			t.Errorf("%q: the channel %s is in another slot than the record", prefix, got[2])
		}
		for _, key := range got {
			if other, ok := seen[key]; ok {
				t.Errorf("%q and %q share %s", prefix, other, key)
			}
			seen[key] = prefix
			if Check(key, false) == nil {
				t.Errorf("%s is admitted as the name of a lock", key)
			}
		}
	}
	for name, want := range map[string]string{"job": "mortise:history:{job}", "{t}:x": "mortise:history:{t}:x::"} {
		if got := History(name); got != want || Slot(got) != Slot(name) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestLatchChannelIsAlwaysWrapped(t *testing.T) {
	for name, want := range map[string]struct {
		channel  string
		together bool
	}{
		"job":   {"redisson_countdownlatch__channel__{job}", true},
		"{t}:x": {"redisson_countdownlatch__channel__{{t}:x}", false},
	} {
		if got := LatchChannel(name); got != want.channel || (Slot(got) == Slot(name)) != want.together {
			t.Errorf("%q: %q in slot %d beside %d, want %+v", name, got, Slot(got), Slot(name), want)
		}
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name        string
		strict, any bool // admitted
	}{
		{"job", true, true},
		{"{t}:x", true, true},
		{"x{t}y", true, true},
		{"a{b}c{d}", true, true},
		{"ümläut 名", true, true},
		{strings.Repeat("x", MaxName), true, true},
		{strings.Repeat("x", MaxName+1), false, true},
		{"", false, false},
		{"a\x00b", false, true},
		{"a\nb", false, true},
		{"a\x7fb", false, true},
		{"\xff\xfe", false, true},
		{"redisson_lock_queue:{job}", false, true},
		{"mortise:x", false, true},
		{"{job}:a:1:rwlock_timeout:1", false, true},
		{"rwlock_timeout:1", true, true},
		{"{job}:timeout", false, true},
		{"{order}:p:timeout", false, true},
		{"app:{job}:timeout", false, true},
		{"a{b}c{d}:timeout", false, true},
		{"{job}:timeout:timeout", false, true},
		{"job:timeout", true, true},
		{"app:job:timeout", true, true},
		{"timeout", true, true},
		{":timeout", true, true},
		{"{job}:timeouts", true, true},
		{"{job}timeout", true, true},
		{"{job:timeout}", true, true},
		{"{job}:timeout:1", true, true},
		{"a{b", false, true},
		{"{}x", false, true},
		{"x{}y", false, true},
		{"a}b", false, true},
		{"}x", false, true},
		{"x{}{y}", false, true},
		{"{", false, true},
		{"a}b{c", false, true},
		{"{open", false, true},
	}
	for _, test := range tests {
		if err := Check(test.name, false); (err == nil) != test.strict {
			t.Errorf("Check(%.20q, false) = %v, want admitted %v", test.name, err, test.strict)
		}
		if err := Check(test.name, true); (err == nil) != test.any {
			t.Errorf("Check(%.20q, true) = %v, want admitted %v", test.name, err, test.any)
		}
	}
}

// The slots come from CLUSTER KEYSLOT of redis-server 7.0.15.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{
		"":           0,
		"foo":        12182,
		"123456789":  12739,
		"{foo}bar":   12182,
		"x{foo}y{z}": 12182,
		"{}foo":      9500,
	} {
		if got := Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestReleaseNames(t *testing.T) {
	for _, name := range []string{"a", "{a}", "a:{b}:c", "größe"} {
		channel, turns, channels := ReleaseNames(name)
		if want := LockChannel(name); channel != want {
			t.Errorf("the channel of %q is %q, want %q", name, channel, want)
		}
		if want := Turns(name); turns != want {
			t.Errorf("the turns of %q are %q, want %q", name, turns, want)
		}
		if want := TurnChannel(name, ""); channels != want {
			t.Errorf("the channels of %q begin with %q, want %q", name, channels, want)
		}
	}
}

// ownNames are all keys and channels of mortise's own for a name.
func ownNames(name string) []string {
	const client, lease, permit = "a1000000-0000-8000-8000-000000000001", ":7", "00112233445566778899aabbccddeeff"
	_, turns, channels := ReleaseNames(name)
	return []string{
		turns, channels + client, FairOurs(name), FairSigns(name), FairTurnChannel(name, client),
		ElectionChannel(name), ElectionNews(name), BarrierOutcomes(name) + ":" + client + lease, BarrierChannel(name),
		Claims(name), Fence(name), Operation(name, client+lease), Operation(name, permit), History(name),
	}
}

// redissonsNames are all keys that Redisson derives from a name. Channels are left out: nothing
// but a wake-up depends on them.
func redissonsNames(name string) []string {
	const reader = "b2000000-0000-4000-8000-000000000002:1"
	return []string{FairQueue(name), FairDeadlines(name), Token(name), RWHolds(name) + ":" + reader + ":rwlock_timeout:1", PermitExpiries(name)}
}

// keys records which name each key belongs to.
type keys struct {
	own    map[string]string // mortise's keys and channels
	shared map[string]string // Redisson's keys, with the last name that has it
	pairs  int               // keys of Redisson's that two names share
}

// add records the keys of a name, none of which another name may have, but for those of
// Redisson's that it shares with the same name in braces.
func (k *keys) add(t *testing.T, name string) {
	t.Helper()
	for _, key := range ownNames(name) {
		if other, ok := k.own[key]; ok {
			t.Fatalf("%q and %q share %q", name, other, key)
		}
		if k.own[key] = name; Slot(key) != Slot(name) {
			t.Fatalf("%q of %q lies in another slot", key, name)
		}
	}
	for _, key := range redissonsNames(name) {
		if other, ok := k.shared[key]; ok {
			if name != "{"+other+"}" && other != "{"+name+"}" {
				t.Fatalf("%q and %q share %q", name, other, key)
			}
			if k.pairs++; CheckPermits(name) == nil && CheckPermits(other) == nil {
				t.Fatalf("%q and %q may both have permits", name, other)
			}
		}
		k.shared[key] = name
	}
}

// wantNone demands that a name is not a key of another name.
func (k *keys) wantNone(t *testing.T, name string) {
	t.Helper()
	if other, ok := k.own[name]; ok {
		t.Fatalf("%q is a key of %q", name, other)
	}
	if other, ok := k.shared[name]; ok {
		t.Fatalf("%q is a key of %q", name, other)
	}
}

// No two names share a key or channel of mortise's, and none of these is a name that something
// else uses. A name and the same name in braces share all keys of Redisson's; no other two names
// share any. Behind a prefix no two names do.
func TestNoTwoNamesShareAKey(t *testing.T) {
	for prefix, want := range map[string]struct{ draws, pairs int }{"": {300_000, 100}, "p:": {10_000, 0}, "{p}": {10_000, 0}, "a{b}c:": {10_000, 0}} {
		t.Run(prefix, func(t *testing.T) {
			k, names := drawNames(t, prefix, want.draws)
			if names < want.draws/20 || k.pairs < want.pairs || want.pairs == 0 && k.pairs > 0 {
				t.Errorf("%d names were admitted, and %d keys shared, want more of both", names, k.pairs)
			}
		})
	}
}

// wantNoMoreRefused demands that a name refused as a key of permits is one.
func wantNoMoreRefused(t *testing.T, name string, err error) {
	t.Helper()
	if semaphore := strings.TrimSuffix(name, ":timeout"); errors.Is(err, ErrPermitEnds) && (PermitExpiries(semaphore) != name || !strings.Contains(err.Error(), "PermitSemaphore")) {
		t.Fatalf("%q is no key of permits, and refused: %v", name, err)
	}
}

// drawNames adds names that begin with prefix, and returns how many were admitted.
func drawNames(t *testing.T, prefix string, draws int) (k *keys, names int) {
	pieces := []string{
		"a", "b", "job", ":", "{", "}", "{a}", "{job}", "::", ":timeout", "timeout", ":rwlock_timeout:1", "mortise:", "mortise:turns:",
		"redisson_lock_queue:", "a1000000-0000-8000-8000-000000000001", ":7", "00112233445566778899aabbccddeeff", "b2000000-0000-4000-8000-000000000002:1",
	}
	draw := rand.New(rand.NewPCG(1, 2))
	k = &keys{own: make(map[string]string), shared: make(map[string]string)}
	admitted := make(map[string]bool)
	for range draws {
		var b strings.Builder
		b.WriteString(prefix)
		for range 1 + draw.IntN(5) {
			b.WriteString(pieces[draw.IntN(len(pieces))])
		}
		name := b.String()
		err := Check(name, false)
		wantNoMoreRefused(t, name, err)
		if admitted[name] || err != nil {
			continue
		}
		admitted[name] = true
		k.add(t, name)
	}
	for name := range admitted {
		k.wantNone(t, name)
	}
	return k, len(admitted)
}

func TestCheckPrefix(t *testing.T) {
	for prefix, want := range map[string]struct{ strict, any bool }{ // admitted
		"": {true, true}, "p:": {true, true}, "{p}": {true, true}, "{p}:{q}": {true, true}, "ümläut": {true, true}, "redisson": {true, true},
		strings.Repeat("x", MaxName-1): {true, true}, strings.Repeat("x", MaxName): {false, false},
		"a\x00": {false, true}, "a\n": {false, true}, "\xff": {false, true},
		"redisson_": {false, true}, "mortise:": {false, true}, "{p": {false, true}, "{}": {false, true}, "p}": {false, true}, "{": {false, true},
	} {
		if err := CheckPrefix(prefix, false); (err == nil) != want.strict {
			t.Errorf("CheckPrefix(%.20q, false) = %v, want admitted %v", prefix, err, want.strict)
		}
		if err := CheckPrefix(prefix, true); (err == nil) != want.any {
			t.Errorf("CheckPrefix(%.20q, true) = %v, want admitted %v", prefix, err, want.any)
		}
	}
}

// The glob for counters and fences matches all of them, and of other keys only the queues of fair locks.
func TestTokenPattern(t *testing.T) {
	for _, name := range []string{"job", "a:b", "{job}", "{a}:b", "x{y}z", "redisson_lock", "mortise:fence"} {
		for _, key := range []string{Token(name), Fence(name)} {
			if ok, err := path.Match(TokenPattern, key); !ok || err != nil || !CountsTokens(key) {
				t.Errorf("%s does not match, or counts no tokens: %v, %v", key, err, CountsTokens(key))
			}
		}
		for _, key := range []string{
			name, Turns(name), History(name), PermitExpiries(name), FairOurs(name), FairSigns(name), ClientRecord("", name), ClientIndex(name),
			"mortise:fences:" + name,
		} {
			if ok, err := path.Match(TokenPattern, key); ok || err != nil {
				t.Errorf("%s matches, %v", key, err)
			}
		}
		for _, key := range []string{FairQueue(name), FairDeadlines(name)} {
			if CountsTokens(key) {
				t.Errorf("%s is taken for a counter of tokens, or a fence", key)
			}
		}
	}
}
