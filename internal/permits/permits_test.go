package permits

import (
	"testing"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/waiting"
	"github.com/mortise-go/mortise/memredis"
)

// Redis takes the operations of a lane for one after another: so those under way at the same time
// have lanes of their own, and a lane is used again only after its operation has ended.
func TestOperationsUnderWayHaveLanesOfTheirOwn(t *testing.T) {
	s := memredis.New()
	defer s.Close()
	c := lease.New(lease.Config{Driver: s.Driver()})
	o := NewNumbers(waiting.New(c)).Number(c.Object("n"))
	first, second := o.DrawOperation(), o.DrawOperation()
	o.DropOperation(first)
	third, fourth := o.DrawOperation(), o.DrawOperation()
	if second.Lane == first.Lane || fourth.Lane == second.Lane || fourth.Lane == third.Lane {
		t.Errorf("the lanes are %s, %s, then %s, %s", first.Lane, second.Lane, third.Lane, fourth.Lane)
	}
	if third.Lane != first.Lane {
		t.Errorf("the lane %s of an operation that has ended is not used again, but %s", first.Lane, third.Lane)
	}
	for _, pair := range [][2]uint64{{first.Serial, second.Serial}, {second.Serial, third.Serial}, {third.Serial, fourth.Serial}} {
		if pair[1] <= pair[0] {
			t.Errorf("the serial number %d comes after %d", pair[1], pair[0])
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
