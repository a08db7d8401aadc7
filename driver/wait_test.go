package driver_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise/driver"
)

func TestWaitCommands(t *testing.T) {
	for want, wait := range map[string]driver.Wait{
		"[[WAIT 2 1000]]":                          {Replicas: 2, Timeout: time.Second},
		"[[WAIT 0 1]]":                             {},
		"[[WAIT 1 1]] ":                            {Replicas: 1, Timeout: time.Nanosecond},
		"[[WAIT 1 2]]":                             {Replicas: 1, Timeout: time.Millisecond + 1},
		"[[WAIT 1 1]]":                             {Replicas: 1, Timeout: -time.Hour}, // 0 would mean forever
		"[[INFO replication] [WAIT 1 5]]":          {Replicas: 1, Timeout: 5 * time.Millisecond, Count: true},
		"[[WAITAOF 1 3 5]]":                        {Replicas: 3, Timeout: 5 * time.Millisecond, AOF: true},
		"[[INFO replication] [WAITAOF 1 0 60000]]": {Timeout: time.Minute, Count: true, AOF: true},
	} {
		if got := fmt.Sprint(wait.Commands()); got != strings.TrimSpace(want) {
			t.Errorf("%+v: %s, want %s", wait, got, want)
		}
	}
}

// A missing reply about replicas must not count as an acknowledgement.
func TestWaitReplies(t *testing.T) {
	num, str, arr := driver.IntValue, driver.StringValue, driver.ArrayValue
	info := str("txt:# Replication\r\nrole:master\r\nconnected_slaves:2\r\nslave0:ip=127.0.0.1,port=1,state=online\r\n")
	refused := driver.ReplyError(errors.New("NOPERM no"), "NOPERM no")
	for _, test := range []struct {
		name    string
		wait    driver.Wait
		replies []driver.Result
		want    string
	}{
		{"wait", driver.Wait{}, []driver.Result{{Value: num(1)}}, "1 of 0, synced false, other"},
		{"count", driver.Wait{Count: true}, []driver.Result{{Value: info}, {Value: num(2)}}, "2 of 2, synced false, other"},
		{"waitaof", driver.Wait{AOF: true}, []driver.Result{{Value: arr([]driver.Value{num(1), num(2)})}}, "2 of 0, synced true, other"},
		{"not synced", driver.Wait{AOF: true}, []driver.Result{{Value: arr([]driver.Value{num(0), num(1)})}}, "1 of 0, synced false, other"},
		{"nil", driver.Wait{}, []driver.Result{{}}, "error other"},
		{"text", driver.Wait{}, []driver.Result{{Value: str("1")}}, "error other"},
		{"array for a number", driver.Wait{}, []driver.Result{{Value: arr(nil)}}, "error other"},
		{"number for an array", driver.Wait{AOF: true}, []driver.Result{{Value: num(1)}}, "error other"},
		{"short array", driver.Wait{AOF: true}, []driver.Result{{Value: arr([]driver.Value{num(1)})}}, "error other"},
		{"no info", driver.Wait{Count: true}, []driver.Result{{}, {Value: num(2)}}, "error other"},
		{"odd info", driver.Wait{Count: true}, []driver.Result{{Value: str("connected_slaves:x")}, {Value: num(2)}}, "error other"},
		{"info refused", driver.Wait{Count: true}, []driver.Result{{Err: refused}, {Value: num(2)}}, "error denied"},
		{"wait refused", driver.Wait{Count: true}, []driver.Result{{Value: info}, {Err: refused}}, "error denied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ran := driver.Result{Value: num(7)}
			results := test.wait.Run(make([]driver.Call, 2), func(_ driver.Where, todo []int, _ []bool, _ [][]string) ([]driver.Result, error) {
				if len(todo) == 2 {
					return append([]driver.Result{ran, {Err: &driver.Error{Class: driver.WrongType, Err: errors.New("WRONGTYPE")}}}, test.replies...), nil
				}
				return append([]driver.Result{ran}, test.replies...), nil
			}, true)
			r := results[0]
			got := fmt.Sprintf("%d of %d, synced %v, other", r.Acks, r.Of, r.Synced)
			if r.Err != nil {
				got = "error " + driver.ClassOf(r.Err).String()
			}
			if got != test.want || r.Value.Int() != 7 {
				t.Errorf("%s, %v, want %s", got, r.Value, test.want)
			}
			if class := driver.ClassOf(results[1].Err); class != driver.WrongType || results[1].Acks != 0 {
				t.Errorf("the script that failed: %+v", results[1])
			}
		})
	}
}

// A script is sent again if the server did not run it, and to the server that it names.
func TestWaitRounds(t *testing.T) {
	fail := func(text string) driver.Result {
		return driver.Result{Err: driver.ReplyError(errors.New(text), text)}
	}
	ran := driver.Result{Value: driver.IntValue(1)}
	for name, test := range map[string]struct {
		answers   []driver.Result // of the first script, round by round
		redirects bool
		rounds    string // where, and by digest or as text
		class     driver.Class
	}{
		"ran":                      {[]driver.Result{ran}, true, "d", 0},
		"unknown":                  {[]driver.Result{fail("NOSCRIPT"), ran}, true, "d t", 0},
		"moved":                    {[]driver.Result{fail("MOVED 1 h:1"), ran}, true, "d h:1d", 0},
		"moved, without a cluster": {[]driver.Result{fail("MOVED 1 h:1")}, false, "d", driver.Passing},
		"moved and unknown":        {[]driver.Result{fail("MOVED 1 h:1"), fail("NOSCRIPT"), ran}, true, "d h:1d h:1t", 0},
		"moved forever": {[]driver.Result{fail("MOVED 1 h:1"), fail("MOVED 1 h:2"), fail("MOVED 1 h:1"), fail("MOVED 1 h:2")}, true,
			"d h:1d h:2t h:1t", driver.Passing},
		"moved twice":       {[]driver.Result{fail("MOVED 1 h:1"), fail("MOVED 1 h:2"), ran}, true, "d h:1d h:2t", 0}, // a new master knows no script
		"moved to IPv6":     {[]driver.Result{fail("MOVED 1 ::1:6379"), ran}, true, "d [::1]:6379d", 0},
		"asked":             {[]driver.Result{fail("ASK 1 h:1"), ran}, true, "d ?h:1d", 0},
		"asked and unknown": {[]driver.Result{fail("ASK 1 h:1"), fail("NOSCRIPT"), ran}, true, "d ?h:1d ?h:1t", 0},
		"asked, then moved": {[]driver.Result{fail("ASK 1 h:1"), fail("MOVED 1 h:2"), ran}, true, "d ?h:1d h:2t", 0},
		"asked, and passes": {[]driver.Result{fail("ASK 1 h:1"), fail("TRYAGAIN Multiple keys")}, true, "d ?h:1d", driver.Passing},
		"down":              {[]driver.Result{fail("CLUSTERDOWN Hash slot not served")}, true, "d", driver.Passing},
		"loading":           {[]driver.Result{fail("LOADING Redis is loading")}, true, "d", driver.Passing},
	} {
		t.Run(name, func(t *testing.T) {
			var rounds []string
			others := 0
			results := driver.Wait{}.Run(make([]driver.Call, 2), func(where driver.Where, todo []int, source []bool, _ [][]string) ([]driver.Result, error) {
				var replies []driver.Result
				for _, i := range todo {
					if i == 1 {
						others++
						replies = append(replies, driver.Result{Value: driver.IntValue(9)})
						continue
					}
					replies = append(replies, test.answers[len(rounds)])
					rounds = append(rounds, map[bool]string{true: "?"}[where.Asking]+where.Addr+map[bool]string{false: "d", true: "t"}[source[i]])
				}
				return append(replies, driver.Result{Value: driver.IntValue(1)}), nil
			}, test.redirects)
			if got := strings.Join(rounds, " "); got != test.rounds || others != 1 || results[1].Value.Int() != 9 {
				t.Errorf("sent %q, and the other %d times, want %q and once", got, others, test.rounds)
			}
			if err := results[0].Err; (err != nil) != (test.class != 0) || err != nil && driver.ClassOf(err) != test.class {
				t.Errorf("%v, want class %v", err, test.class)
			}
		})
	}
}

// WAIT waits behind a script that the server did not know, too. That takes from the same time.
func TestWaitTakesItsTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, sent := time.Now(), 0
		wait := driver.Wait{Replicas: 1, Timeout: time.Second}
		results := wait.Run(make([]driver.Call, 1), func(_ driver.Where, _ []int, source []bool, follow [][]string) ([]driver.Result, error) {
			sent++
			ms, err := strconv.Atoi(follow[0][2])
			if err != nil || follow[0][0] != "WAIT" {
				t.Fatalf("it sends %q", follow)
			}
			time.Sleep(time.Duration(ms) * time.Millisecond) // there is no replica
			script := driver.Result{Value: driver.IntValue(7)}
			if !source[0] {
				script = driver.Result{Err: driver.ReplyError(errors.New("NOSCRIPT"), "NOSCRIPT")}
			}
			return []driver.Result{script, {Value: driver.IntValue(0)}}, nil
		}, false)
		if took := time.Since(start); took != 1100*time.Millisecond || sent != 2 {
			t.Errorf("%d pipelines took %v, want 2 and 1.1s", sent, took)
		}
		if r := results[0]; r.Err != nil || r.Value.Int() != 7 || r.Acks != 0 {
			t.Errorf("%+v", r)
		}
	})
}
