package top

import (
	"testing"

	"github.com/mortise-go/mortise"
)

func TestErrorSaysHowManyWereAsked(t *testing.T) {
	one, other := mortise.AskedHolder{Asked: true}, mortise.AskedHolder{}
	for _, test := range []struct {
		holders []mortise.AskedHolder
		want    string
	}{
		{nil, "nobody was asked"},
		{[]mortise.AskedHolder{other}, "nobody was asked"},
		{[]mortise.AskedHolder{other, one}, "1 of 2 holders were asked"},
		{[]mortise.AskedHolder{one, one}, "2 of 2 holders were asked"},
	} {
		if got := wereAsked(test.holders); got != test.want {
			t.Errorf("of %d holders: %q, want %q", len(test.holders), got, test.want)
		}
	}
}
