package driver_test

import (
	"math"
	"testing"

	"github.com/mortise-go/mortise/driver"
)

func TestValue(t *testing.T) {
	array := driver.ArrayValue([]driver.Value{driver.IntValue(-7), driver.StringValue("a b"), {}, driver.ArrayValue(nil)})
	for _, test := range []struct {
		v    driver.Value
		kind driver.Kind
		num  int64
		str  string
		len  int
		text string
	}{
		{driver.Value{}, driver.Nil, 0, "", 0, "nil"},
		{driver.IntValue(-7), driver.Int, -7, "", 0, "-7"},
		{driver.IntValue(0), driver.Int, 0, "", 0, "0"},
		{driver.StringValue("7"), driver.String, 0, "7", 0, `"7"`}, // text is no number
		{driver.StringValue(""), driver.String, 0, "", 0, `""`},
		{driver.StringValue("a\x00\n"), driver.String, 0, "a\x00\n", 0, `"a\x00\n"`},
		{driver.ArrayValue(nil), driver.Array, 0, "", 0, "[]"},
		{array, driver.Array, 0, "", 4, `[-7 "a b" nil []]`},
	} {
		if test.v.Kind() != test.kind || test.v.Int() != test.num || test.v.Str() != test.str || test.v.Len() != test.len {
			t.Errorf("%v has kind %d, number %d, text %q, length %d, want %d, %d, %q, %d",
				test.v, test.v.Kind(), test.v.Int(), test.v.Str(), test.v.Len(), test.kind, test.num, test.str, test.len)
		}
		if got := test.v.String(); got != test.text {
			t.Errorf("it prints as %s, want %s", got, test.text)
		}
	}
	if got := array.At(1).Str(); got != "a b" {
		t.Errorf("item 1 is %q, want %q", got, "a b")
	}
	for _, i := range []int{-1, 4} {
		if got := array.At(i).Kind(); got != driver.Nil {
			t.Errorf("item %d, which does not exist, has kind %d, want nil", i, got)
		}
	}
	if got := driver.IntValue(1).At(0).Kind(); got != driver.Nil {
		t.Errorf("item 0 of a number has kind %d, want nil", got)
	}
}

func TestCodeValue(t *testing.T) {
	for _, n := range []int64{math.MinInt64, -3, -2, -1, 0, 1, 2, 3, math.MaxInt64} {
		v := driver.CodeValue(n)
		if v.Kind() != driver.Array || v.Len() != 1 || v.At(0).Kind() != driver.Int || v.At(0).Int() != n {
			t.Errorf("CodeValue(%d) = %v", n, v)
		}
	}
}

func TestScriptDigest(t *testing.T) {
	// SCRIPT LOAD 'return 1' says so.
	s := driver.NewScript("one", "return 1")
	if want := "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; s.SHA() != want {
		t.Errorf("the digest is %s, want %s", s.SHA(), want)
	}
	if s.Name() != "one" || s.Source() != "return 1" {
		t.Errorf("name and source are %q and %q, want those it was given", s.Name(), s.Source())
	}
}
