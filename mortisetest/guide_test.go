package mortisetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// docs/guide.md shows this test.

func TestExportStopsWhenTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mortisetest.NewServer()
		defer server.Close()
		link := server.Link() // the network between one client and the server
		client := mortise.New(link, nil)
		defer client.Close()

		err := export(t.Context(), client, func(row int) { // your job, and what it does with each row
			if row == 2 {
				link.Partition()
				time.Sleep(time.Minute) // in no time; the lease has ended
			}
			if row > 2 {
				t.Errorf("it writes row %d without the lock", row)
			}
		})
		if !errors.Is(err, mortise.ErrLost) {
			t.Errorf("error %v, want ErrLost", err)
		}
	})
}
