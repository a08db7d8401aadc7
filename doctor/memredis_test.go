package doctor_test

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

// examine returns the report of an examination that must come to its end.
func examine(t *testing.T, s *memredis.Server, o *doctor.Options) *doctor.Report {
	t.Helper()
	d := s.Driver()
	defer d.Close()
	r, err := doctor.Examine(t.Context(), d, o)
	if err != nil {
		t.Fatal(err)
	}
	wantKnown(t, r)
	return r
}

// wantKnown wants findings that the documents have, under the heading of their group.
func wantKnown(t *testing.T, r *doctor.Report) {
	t.Helper()
	_, groups := explained(t)
	for _, f := range r.Findings {
		if !slices.Contains(doctor.IDs(), f.ID) {
			t.Errorf("the id %q is not in the list", f.ID)
		}
		if f.Group != groups[f.ID] {
			t.Errorf("docs/doctor.md has %q under %q, want %q", f.ID, groups[f.ID], f.Group)
		}
	}
}

// explained returns the ids that docs/doctor.md explains, in its order, and the headings that they stand under.
func explained(t *testing.T) (list []string, groups map[string]doctor.Group) {
	t.Helper()
	text, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What is examined")
	section, _, _ = strings.Cut(section, "\n## ")
	groups = make(map[string]doctor.Group)
	for _, part := range strings.Split(section, "\n### ")[1:] {
		heading, body, _ := strings.Cut(part, "\n")
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(body, -1) {
			list, groups[row[1]] = append(list, row[1]), doctor.Group(heading)
		}
	}
	return list, groups
}

// docs/doctor.md explains each finding.
func TestDocumentsHaveEachFinding(t *testing.T) {
	if list, _ := explained(t); !slices.Equal(list, doctor.IDs()) {
		t.Errorf("the documents have\n%q, want\n%q", list, doctor.IDs())
	}
}

// Of the embedded server only that is examined what it has.
func TestEmbeddedServer(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		r := examine(t, s, nil)
		if r.Worst != doctor.Info || r.Err != nil {
			t.Errorf("the worst is %s, err %v, want info, and none", r.Worst, r.Err)
		}
		for id, want := range map[string]doctor.Severity{
			"connection": doctor.OK, "scripts": doctor.OK, "messages": doctor.OK, "clock": doctor.OK, "keys": doctor.OK, "server-version": doctor.Info,
		} {
			if f := one(t, r, id); f.Severity != want {
				t.Errorf("%s is %s, want %s: %s", id, f.Severity, want, f.Found)
			}
		}
		for _, f := range r.Findings {
			if f.Severity == doctor.Unknown {
				t.Errorf("%s is unknown: %s", f.ID, f.Found)
			}
		}
	})
}

// scriptsOnly is a driver that sends no commands but scripts.
type scriptsOnly struct{ driver.Driver }

func TestDriverWithoutCommands(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		d := s.Driver()
		defer d.Close()
		r, err := doctor.Examine(t.Context(), scriptsOnly{d}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f := one(t, r, "eviction"); f.Severity != doctor.Unknown || !strings.Contains(f.Found, "this driver sends no commands") {
			t.Errorf("%+v", f)
		}
		if f := one(t, r, "scripts"); f.Severity != doctor.OK {
			t.Errorf("%+v", f)
		}
	})
}

func TestOptionsThatAreRefused(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		d := s.Driver()
		defer d.Close()
		for _, test := range []struct {
			options doctor.Options
			names   string // that the error tells
		}{
			{doctor.Options{Fix: []string{"eviction"}}, "there is no fix for \"eviction\": the finding says what to do, and the command for that; there are fixes for fair-queue-dead, "},
			{doctor.Options{Fix: []string{"evictoin"}}, "nothing to fix called \"evictoin\"; there are fair-queue-dead, "}, {doctor.Options{Fix: []string{""}}, "fair-queue-dead, "},
			{doctor.Options{Accept: []string{"evictions"}}, ", eviction, "}, {doctor.Options{Kinds: []doctor.Kind{"unfair"}}, ", fair, "},
		} {
			r, err := doctor.Examine(t.Context(), d, &test.options)
			if !errors.Is(err, mortise.ErrInvalid) || r != nil || !strings.Contains(err.Error(), test.names) {
				t.Errorf("%+v: %v, %v, want ErrInvalid, and what there is", test.options, r, err)
			}
		}
	})
}

// What is accepted does not count.
func TestAccepted(t *testing.T) {
	locktest.Bubble(t, func(t *testing.T, s *memredis.Server) {
		r := examine(t, s, &doctor.Options{Accept: []string{"server-version"}})
		if r.Worst != doctor.OK || !one(t, r, "server-version").Accepted || one(t, r, "scripts").Accepted {
			t.Errorf("the worst is %s", r.Worst)
		}
	})
}

// The JSON form is stable.
func TestReportAsJSON(t *testing.T) {
	r := doctor.Refused("tls", "redis:6379", errors.New("bad certificate"))
	text, err := json.Marshal(r)
	want := `{"findings":[` +
		`{"id":"connection-resolve","group":"connection","severity":"ok","found":"the name of the host has an address"},` +
		`{"id":"connection-connect","group":"connection","severity":"ok","found":"the server accepts connections"},` +
		`{"id":"connection-tls","group":"connection","severity":"critical","server":"redis:6379","found":"TLS fails: bad certificate","do":"Check that the port is one for TLS, and which certificates both sides accept."}],` +
		`"worst":"critical","keys_looked_at":0,"keys":-1}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v, want\n%s", text, err, want)
	}
}

// Without a password, and with a wrong one, there are two texts, neither of them with what Redis advises its clients.
func TestPasswordThatIsMissingOrWrong(t *testing.T) {
	for reply, want := range map[string]string{
		"NOAUTH HELLO must be called with the client already authenticated": "Redis asks for a password, and none was given",
		"WRONGPASS invalid username-password pair or user is disabled.":     "the user or the password is not accepted: WRONGPASS ",
	} {
		if f := one(t, doctor.Refused("auth", "", errors.New(reply)), "connection-auth"); !strings.HasPrefix(f.Found, want) {
			t.Errorf("%s: it says %q, want %q", reply, f.Found, want)
		}
	}
}
