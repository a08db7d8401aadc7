package script_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
)

// contracts has the replies of each script as its header in lua/ describes them: those that are no
// failure. Digits are that number, i is an integer, n an integer or nil, s a text, and
// brackets are an array; what follows a star in it is repeated.
var contracts = map[string]string{
	"LockAcquire": "11 12 [0iss] [0issii]", "LockReenter": "[0] [1]", "LockLeave": "[0] [1]", "LockKeep": "[0] [1] [2] [0s] [1s] [2s]",
	"LockRelease": "20 21 22 [21s]", "MultiAcquire": "[1] [0iiss]", "MultiRelease": "[iii] [iiis]",
	"NumberRead": "[0] [1i]", "NumberSet": "[0] [1] [0s] [1s]", "NumberDelete": "[0] [1] [0s] [1s]",
	"SemaphoreAcquire": "[1i] [0ni] [1is]", "SemaphoreUndo": "[0] [1] [0s] [1s]", "SemaphoreRelease": "[1i] [1is] [2i] [0i]", "SemaphoreAdd": "[1i] [1is] [0i]",
	"SemaphoreDrain": "[1i] [1is]", "LatchCountDown": "[1i] [1is]", "Renew": "[iii]", "RenewAndWait": "[iii]", "GroupRenew": "[iii]", "RWReadRenewal": "[iii]",
	"PermitRenewal": "[iii]", "DoubleRenewal": "[iii]", "FencedAcquire": "[1i] [2i] [0iss] [0issii]", "FencedReenter": "[0] [1i]", "FencedToken": "[s]",
	"GroupAcquire": "[1] [0iss]", "GroupReenter": "[0] [1]", "GroupLeave": "[0] [1]", "GroupRelease": "[0] [1] [2] [0s] [1s] [2s]", "GroupInspect": "[0] [1sissis]",
	"Inspect": "[sii[*s]s[*s][*s]]", "RWReadAcquire": "[1] [0iss]", "RWWriteAcquire": "[1] [0iss]", "RWReadReenter": "[0] [1]", "RWReadLeave": "[0] [1]",
	"RWReadRelease": "[0] [1] [2] [0s] [1s] [2s]", "RWWriteRelease": "[0] [1] [2] [0s] [1s] [2s]", "RWWriteKeep": "[0] [1] [2] [0s] [1s] [2s]",
	"PermitAcquire": "[1i] [0nii]", "PermitRelease": "[0] [1] [0s] [1s] [0i] [1i]", "PermitSet": "[0] [1] [0s] [1s]", "PermitExtend": "[0] [1]", "PermitDelete": "[0] [1]",
	"PermitInspect": "[ii*si]", "FairAcquire": "[1i] [2i] [0isiii] [0isiiiiii]", "FairRelease": "31 [ii1i] [ii1is]", "FairLeave": "31 [ii1i] [ii1is] [ii2i] [ii2is]", "FairTend": "[iiisii*s]", "FairInspect": "[i*ss]",
	"ElectionCampaign": "[1i] [0is]", "ElectionProclaim": "[0] [1] [0s] [1s]", "ElectionRead": "[0] [1sisii]", "ElectionResign": "[0] [1] [0s] [1s]",
	"BarrierAwait": "[0] [1i] [2s]", "BarrierLeave": "[1]", "BarrierReset": "[1]", "DoubleEnter": "[1ii] [0is] [2]", "DoubleLeave": "[0] [1i] [2s]", "DoubleQuit": "[0] [1]",
	"InspectTokens": "[iiiiii]",
	"WriteClient":   "[s*ss]", "WriteClientNot": "[s*ss]", "ReadClients": "[ssss]", "IndexClient": "[s]", "ListClients": "[i*s]", "AskClient": "[0] [1]",
	"HistoryAdd": "[1]", "HistoryRead": "[i*ss]", "ReadTurns": "[i*s]",
}

func fits(contract string, v driver.Value) bool {
	return slices.ContainsFunc(strings.Fields(contract), func(form string) bool {
		rest, ok := fitsItem(form, v)
		return ok && rest == ""
	})
}

// fitsItem compares v with the first item of a form, and returns what follows that.
func fitsItem(form string, v driver.Value) (rest string, ok bool) {
	switch number := digits(form); {
	case form[0] == 'i':
		return form[1:], v.Kind() == driver.Int
	case form[0] == 'n':
		return form[1:], v.Kind() == driver.Int || v.Kind() == driver.Nil
	case form[0] == 's':
		return form[1:], v.Kind() == driver.String
	case number != "":
		return form[len(number):], v.Kind() == driver.Int && v.String() == number
	}
	items, rest := bracketed(form)
	again := ""
	for i := range v.Len() {
		if strings.HasPrefix(items, "*") {
			again = items[1:]
		}
		if items == "" || items[0] == '*' {
			items = again
		}
		if items == "" {
			return rest, false
		}
		if items, ok = fitsItem(items, v.At(i)); !ok {
			return rest, false
		}
	}
	return rest, v.Kind() == driver.Array && (items == "" || items[0] == '*')
}

func digits(form string) (number string) {
	return form[:len(form)-len(strings.TrimLeft(form, "0123456789"))]
}

// bracketed cuts a form after its first array.
func bracketed(form string) (items, rest string) {
	open := 0
	for i, c := range form {
		switch c {
		case '[':
			open++
		case ']':
			if open--; open == 0 {
				return form[1:i], form[i+1:]
			}
		}
	}
	panic("no array: " + form)
}

// drawn makes replies of the bytes of a fuzz input.
type drawn []byte

func (d *drawn) byte() byte {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return b
}

func (d *drawn) number() int64 {
	some := []int64{0, 1, -1, 2, -2, 3, 11, 12, -11, 20, 21, 22, 1 << 31, 1 << 53, 9223372036854, 9223372036855, 1<<63 - 1, -1 << 63}
	if b := d.byte(); int(b) < len(some) {
		return some[b]
	}
	var bytes [8]byte
	*d = (*d)[copy(bytes[:], *d):]
	return int64(binary.BigEndian.Uint64(bytes[:]))
}

func (d *drawn) text() string {
	some := []string{"", "1", "0", "-1", "1e400", "nan", "inf", "9223372036854775808", "over", "left", "passed 1", "passed x", "broken died x", me, "\x1b[2J\n", strings.Repeat("x", 3000)}
	n := int(d.byte())
	if n < len(some) {
		return some[n]
	}
	n = min(n-len(some), len(*d))
	text := string((*d)[:n])
	*d = (*d)[n:]
	return text
}

// any returns a value of any form.
func (d *drawn) any(depth int) driver.Value {
	switch d.byte() % 5 {
	case 1:
		return driver.IntValue(d.number())
	case 2:
		return driver.StringValue(d.text())
	case 3:
		return driver.CodeValue(d.number())
	case 4:
		if depth == 0 {
			return driver.ArrayValue(nil)
		}
		return d.array(int(d.byte())%10, depth)
	}
	return driver.Value{}
}

func (d *drawn) array(n, depth int) driver.Value {
	items := make([]driver.Value, n)
	for i := range items {
		items[i] = d.any(depth - 1)
	}
	return driver.ArrayValue(items)
}

// like returns a value of a form, and what follows that.
func (d *drawn) like(form string) (v driver.Value, rest string) {
	number := digits(form)
	switch {
	case form[0] == 'i':
		return driver.IntValue(d.number()), form[1:]
	case form[0] == 's':
		return driver.StringValue(d.text()), form[1:]
	case form[0] == 'n':
		return driver.Value{}, form[1:]
	case number != "":
		n, _ := strconv.ParseInt(number, 10, 64)
		return driver.IntValue(n), form[len(number):]
	}
	items, rest := bracketed(form)
	var values []driver.Value
	for items != "" {
		if items[0] == '*' {
			items = strings.Repeat(items[1:], int(d.byte())%4)
			continue
		}
		var next driver.Value
		next, items = d.like(items)
		values = append(values, next)
	}
	switch i := int(d.byte()); { // sometimes one thing is wrong
	case i < len(values):
		values[i] = d.any(2)
	case i == 50:
		values = append(values, d.any(2))
	case i == 51 && len(values) > 0:
		values = values[:len(values)-1]
	}
	return driver.ArrayValue(values), rest
}

// Whatever comes as the reply of a script, a call does not panic; what breaks the contract of its
// script is a short error of class other, and no outcome.
func FuzzReplies(f *testing.F) {
	calls := slices.Sorted(maps.Keys(everyCall))
	var forms []string
	for _, call := range calls {
		if contracts[call] == "" {
			f.Fatalf("the replies of %s are not known", call)
		}
		forms = append(forms, strings.Fields(contracts[call])...)
	}
	slices.Sort(forms)
	forms = slices.Compact(forms)
	for i := range forms {
		f.Add(uint8(i), []byte{60, 3, 9, 60, 1, 60, 17, 60, 16, 60})
		f.Add(uint8(i), []byte{0, 14, 5, 1, 0, 2, 4, 3})
	}
	f.Add(uint8(255), []byte("\x04\x09\x01\x10\x02\x0f\x04\x03\x04\x02\x01\x11"))
	f.Fuzz(func(t *testing.T, form uint8, data []byte) {
		d := drawn(data)
		var v driver.Value
		if int(form) < len(forms) {
			v, _ = d.like(forms[form])
		} else {
			v = d.any(40)
		}
		for _, call := range calls {
			err := everyCall[call](t.Context(), odd{result: driver.Result{Value: v}})
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("%s: the error has %d bytes: %.300s", call, len(err.Error()), err)
			}
			if fits(contracts[call], v) {
				continue
			}
			if err == nil || errors.Is(err, errPromised) {
				t.Errorf("%s on the reply %.300v, which its script does not give: %v, want an error and no outcome", call, v, err)
			}
		}
	})
}
