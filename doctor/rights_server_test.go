//go:build server

package doctor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/internal/redistest"
)

// withRule makes a user of a rule, and returns a driver of it.
func withRule(t *testing.T, s *redistest.Server, words []string) driver.Driver {
	t.Helper()
	_, _ = s.Do("ACL", "DELUSER", words[2])
	s.Must(t, redistest.Rules(t, words...)...)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: words[2], Password: "SECRET", DisableIdentity: true, DialerRetries: 1})
	d := goredis.Wrap(rdb)
	t.Cleanup(func() { _ = d.Close(); _ = rdb.Close() })
	return d
}

// A user that has the rule of a kind has what the kind needs, whatever the kind; another kind that must work is said to lack rights,
// and no third one is spoken of.
func TestRealRightsOfEachKind(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	for _, kind := range doctor.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			kinds := []doctor.Kind{kind}
			if kind.OnTop() {
				kinds = []doctor.Kind{doctor.KindLock, kind}
			}
			d := withRule(t, s, rule(t, doctor.Rule{User: "worker", Prefix: "app:", Kinds: kinds}))
			r := report(t, d, &doctor.Options{Prefix: "app:", Kinds: kinds[len(kinds)-1:]})
			if kind == doctor.KindRecords {
				wantFinding(t, r, "rights-records", doctor.OK)
			} else {
				wantFinding(t, r, "rights", doctor.OK, "--kind "+string(kind))
			}
			if kind == doctor.KindLook && len(r.Find("rights-records")) > 0 {
				t.Errorf("who looks is to publish records: %+v", r.Find("rights-records"))
			}
			wantFinding(t, r, "messages", doctor.OK)
			if kind != doctor.KindDoctor {
				wantFinding(t, r, "eviction", doctor.Unknown, "no right to info")
			}
			if r.Worst == doctor.Critical {
				t.Errorf("the worst is %s: %+v", r.Worst, r.Findings)
			}
			other := doctor.KindElection
			if kind == doctor.KindElection || kind == doctor.KindLock {
				other = doctor.KindFair
			}
			r = report(t, d, &doctor.Options{Prefix: "app:", Kinds: []doctor.Kind{other}, User: "worker"})
			f := wantFinding(t, r, "rights", doctor.Critical, "the user may not use "+other.Title()+" (without", "which --kind names", "--user ADMIN --askpass acl setuser worker ")
			if strings.Contains(f.Found, doctor.KindGroup.Title()) {
				t.Errorf("it speaks of a kind that was not named: %s", f.Found)
			}
			// What it says mends it.
			if kind == doctor.KindLock {
				_, rights, _ := strings.Cut(f.Command, "setuser worker ")
				for _, word := range strings.Fields(rights) {
					s.Must(t, "ACL", "SETUSER", "worker", strings.Trim(word, "'"))
				}
				wantFinding(t, report(t, d, &doctor.Options{Prefix: "app:", Kinds: []doctor.Kind{other}}), "rights", doctor.OK)
				wantFinding(t, report(t, d, &doctor.Options{Prefix: "app:"}), "rights", doctor.Info, "the user may use ", doctor.KindFair.Title())
			}
		})
	}
}

// Of what comes on top of a kind of lock, and of who only looks, each right that is missing is named, too.
func TestRealMissingRightsOfWhatComesOnTop(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	for kind, missing := range map[doctor.Kind]string{
		doctor.KindLook: "+scan", doctor.KindDoctor: "+config|get", doctor.KindTokens: "+object|idletime", doctor.KindInspect: "+hrandfield",
		doctor.KindRecords: "+xadd", doctor.KindList: "+scan",
	} {
		kinds := []doctor.Kind{kind}
		if kind.OnTop() {
			kinds = []doctor.Kind{doctor.KindLock, kind}
		}
		whole := rule(t, doctor.Rule{User: "worker", Prefix: "app:", Kinds: kinds})
		d := withRule(t, s, slices.DeleteFunc(whole, func(word string) bool { return word == missing }))
		r := report(t, d, &doctor.Options{Prefix: "app:", Kinds: []doctor.Kind{kind}, User: "worker", Keys: 1})
		id, found := "rights", "lacks rights of --kind "+string(kind)+" (without "+missing+")"
		if kind == doctor.KindRecords {
			id, found = "rights-records", ": "+missing
		}
		f := wantFinding(t, r, id, doctor.Critical, found)
		if !strings.HasSuffix(strings.ReplaceAll(f.Command, "'", ""), "acl setuser worker "+missing) {
			t.Errorf("without %s the command is %q", missing, f.Command)
		}
	}
}

// Each right that is missing is named, and no other.
func TestRealEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	for _, kind := range []doctor.Kind{doctor.KindFair, doctor.KindSemaphore} {
		whole := rule(t, doctor.Rule{User: "worker", Prefix: "app:", Kinds: []doctor.Kind{kind}})
		own := slices.Index(whole, "+setname") + 1
		for i, w := range whole {
			if strings.HasPrefix(w, "+client|setname") {
				own = i + 1
			}
		}
		for i, missing := range whole[own:] {
			t.Run(string(kind)+"/"+missing, func(t *testing.T) {
				without := slices.Delete(slices.Clone(whole), own+i, own+i+1)
				r := report(t, withRule(t, s, without), &doctor.Options{Prefix: "app:", Kinds: []doctor.Kind{kind}, Keys: 1})
				f := wantFinding(t, r, "rights", doctor.Critical)
				_, rights, _ := strings.Cut(f.Command, "setuser USER ")
				words := strings.Fields(rights)
				for i := range words {
					words[i] = strings.Trim(words[i], "'")
				}
				if !slices.Equal(words, []string{missing}) {
					t.Errorf("without %s the command gives %q", missing, words)
				}
			})
		}
	}
}

func TestRealUserWithoutScripts(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	s.Must(t, redistest.Rules(t, "ACL", "SETUSER", "reader", "on", ">SECRET", "~*", "&*", "+@all", "-eval", "-evalsha")...)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "reader", Password: "SECRET", DisableIdentity: true, DialerRetries: 1})
	d := goredis.Wrap(rdb)
	t.Cleanup(func() { _ = d.Close(); _ = rdb.Close() })
	r := report(t, d, nil)
	wantFinding(t, r, "scripts", doctor.Critical, "may not run scripts", "mortise acl --add --user reader --kind lock")
	wantFinding(t, r, "eviction", doctor.OK) // the rest is examined
	if f := wantFinding(t, r, "rights", doctor.Unknown, "acl setuser reader"); !strings.Contains(f.Command, "+eval +evalsha") {
		t.Errorf("the command is %q", f.Command)
	}
}

// A wrong password is told as such.
func TestRealWrongPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, "--requirepass", "s3cret")
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: "wrong", DisableIdentity: true, DialerRetries: 1})
	d := goredis.Wrap(rdb)
	t.Cleanup(func() { _ = d.Close(); _ = rdb.Close() })
	r := report(t, d, nil)
	if f := wantFinding(t, r, "connection-auth", doctor.Critical); r.Err == nil || strings.Contains(f.Found, "s3cret") {
		t.Errorf("err %v, found %q", r.Err, f.Found)
	}
}

// The clock of the server is compared with this one's.
func TestRealClockThatIsWrong(t *testing.T) {
	t.Parallel()
	s, clock := redistest.Clocked(t, durable...)
	d := single(t, s)
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "clock", doctor.OK)
	clock.Set(t, 3600e9)
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "clock", doctor.Warning, "1h0m0s ahead of")
	clock.Set(t, -60e9)
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "clock", doctor.Warning, "1m0s behind")
}

// The clocks of a cluster's servers are compared with each other.
func TestRealClocksOfAClusterThatDiffer(t *testing.T) {
	t.Parallel()
	c, clock := redistest.ClockedCluster(t, durable...)
	d := clustered(t, c)
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "clock-between-servers", doctor.OK)
	clock.Set(t, 60e9)
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "clock-between-servers", doctor.Warning, "the clock of "+c.Masters[0].Addr()+" is 1m0s ahead of that of ")
}

// With the rights of the doctor on top of those of the locks, nothing is unknown.
func TestRealRightsOfTheDoctor(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	d := withRule(t, s, rule(t, doctor.Rule{User: "worker", Prefix: "app:", Kinds: []doctor.Kind{doctor.KindLock, doctor.KindFair, doctor.KindPermits, doctor.KindRecords, doctor.KindInspect}}))
	r := report(t, d, &doctor.Options{Prefix: "app:"})
	unknown := func() (ids []string) {
		for _, f := range r.Findings {
			if f.Severity == doctor.Unknown && !f.Accepted {
				ids = append(ids, f.ID)
			}
		}
		return ids
	}
	if len(unknown()) < 5 {
		t.Errorf("without them only %q is unknown", unknown())
	}
	s.Must(t, rule(t, doctor.Rule{User: "worker", Prefix: "app:", Kinds: []doctor.Kind{doctor.KindDoctor}})...)
	s.Must(t, "RPUSH", "redisson_lock_queue:{app:job}", theirs)
	s.Must(t, "HSET", "app:job", theirs, "1")
	r = report(t, d, &doctor.Options{Prefix: "app:"})
	if ids := unknown(); len(ids) > 0 {
		t.Errorf("with them %q is unknown: %+v", ids, r.Find(ids[0]))
	}
	wantFinding(t, r, "lock-without-ttl", doctor.Critical)
}

// A user with hardly any right is told what it lacks, and which findings are unknown for that.
func TestRealUserWithHardlyAnyRight(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	d := withRule(t, s, []string{"ACL", "SETUSER", "poor", "on", ">SECRET", "~app:*", "+eval", "+evalsha", "+hello", "+ping"})
	for _, kinds := range [][]doctor.Kind{nil, {doctor.KindRecords}, {doctor.KindFair}} {
		r := report(t, d, &doctor.Options{Prefix: "app:", Kinds: kinds, User: "poor", Mortise: "mortise --redis redis://db"})
		switch {
		case kinds == nil:
			wantFinding(t, r, "rights", doctor.Critical, "may use no kind of lock", "mortise --redis redis://db --prefix app: acl --add --user poor --kind ")
		case kinds[0] == doctor.KindRecords:
			wantFinding(t, r, "rights-records", doctor.Critical, "acl setuser poor +")
		default:
			wantFinding(t, r, "rights", doctor.Critical, "acl setuser poor +")
		}
		wantFinding(t, r, "silent-client", doctor.Unknown, "mortise --redis redis://db --prefix app: acl --add --user poor --kind records")
		wantFinding(t, r, "messages", doctor.Unknown, "acl --add --user poor --kind "+string(append(kinds, doctor.KindLock)[0]))
		wantFinding(t, r, "keys", doctor.Unknown, "--user ADMIN --askpass acl setuser poor +scan +type +pttl")
		wantFinding(t, r, "clock", doctor.Unknown, "+time")
		if len(r.Find("lock-without-ttl")) > 0 {
			t.Error("locks are said to be in order that nobody has looked at")
		}
	}
}
