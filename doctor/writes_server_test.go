//go:build server

package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A snapshot that has failed makes the server refuse writes, with an append-only file, too.
func TestRealServerWhoseSnapshotFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := redistest.Single(t, append(durable, "--dir", dir, "--save", "3600 1")...)
	d := single(t, s)
	wantFinding(t, report(t, d, &doctor.Options{Keys: 1}), "writes", doctor.OK)
	s.Must(t, "SET", "k", "1")
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700); err != nil { // in the way of the file
		t.Fatal(err)
	}
	if _, err := s.Do("SAVE"); err == nil {
		t.Fatal("the snapshot was saved")
	}
	s.Must(t, "CONFIG", "SET", "stop-writes-on-bgsave-error", "yes")
	redistest.Eventually(t, "the server refuses writes", func() error {
		_, _ = s.Do("BGSAVE") // or the one before has not ended
		if v, err := s.Do("SET", "k", "2"); err == nil {
			return fmt.Errorf("it answers %v", v)
		}
		return nil
	})
	r := report(t, d, &doctor.Options{Keys: 1})
	wantFinding(t, r, "writes", doctor.Critical, "MISCONF")
	wantFinding(t, r, "persistence", doctor.Critical, "snapshot has failed")
}

// A replica that is connected, and does not answer, does not count.
func TestRealReplicaThatStandsStill(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, 1)
	m := set.Master(t)
	awaitReplica(t, m)
	d := single(t, m)
	m.Must(t, "CONFIG", "SET", "min-replicas-max-lag", "1")
	m.Must(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	for _, s := range set.Servers {
		if s.Addr() != m.Addr() {
			s.Pause(t)
			defer s.Resume(t)
		}
	}
	redistest.Eventually(t, "the server refuses writes", func() error {
		if v, err := m.Do("SET", "k", "2"); err == nil {
			return fmt.Errorf("it answers %v", v)
		}
		return nil
	})
	r := report(t, d, &doctor.Options{Keys: 1})
	wantFinding(t, r, "writes", doctor.Critical, "NOREPLICAS")
	wantFinding(t, r, "min-replicas", doctor.Critical, "0 of 1 replica are in touch")
}

// Permits are taken back only if their number can be counted up, and only if they are permits.
func TestRealPermitsThatCannotBeTakenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, durable...)
	d := single(t, s)
	s.Must(t, "SET", "octal", "010")
	s.Must(t, "ZADD", "{octal}:timeout", "1", "0123456789abcdef")
	s.Must(t, "SET", "jobs", "12")
	s.Must(t, "ZADD", "{jobs}:timeout", "1", "0123456789abcdef", "2", "job-b")
	r := report(t, d, &doctor.Options{Fix: []string{"permits-expired"}})
	if len(r.Fixed) != 2 {
		t.Errorf("fixed %+v, want two that could not be", r.Fixed)
	}
	for name, want := range map[string]int64{"octal": 1, "jobs": 2} {
		if got := s.Must(t, "ZCARD", "{"+name+"}:timeout"); got != want {
			t.Errorf("%s has %v permits, want %d", name, got, want)
		}
	}
	if a, b := s.Must(t, "GET", "octal"), s.Must(t, "GET", "jobs"); a != "010" || b != "12" {
		t.Errorf("the numbers are %v and %v, want 010 and 12", a, b)
	}
}
