package resp_test

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/resp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func read(s string) (driver.Value, error) { return resp.Read(bufio.NewReader(strings.NewReader(s))) }

func TestAppend(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"PING"}, "*1\r\n$4\r\nPING\r\n"},
		{[]string{"SET", "", "a\r\nb"}, "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n"},
		{[]string{"GET", "ü"}, "*2\r\n$3\r\nGET\r\n$2\r\nü\r\n"}, // bytes, not characters
	} {
		if got := string(resp.Append([]byte("x"), test.args...)); got != "x"+test.want {
			t.Errorf("Append(x, %q) = %q, want %q", test.args, got, "x"+test.want)
		}
	}
}

func TestRead(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for in, want := range map[string]string{
		"+OK\r\n":                               `"OK"`,
		"+\r\n":                                 `""`,
		":42\r\n":                               "42",
		":-9223372036854775808\r\n":             "-9223372036854775808",
		"$0\r\n\r\n":                            `""`,
		"$2\r\n\r\n\r\n":                        `"\r\n"`,
		"$-1\r\n":                               "nil",
		"*-1\r\n":                               "nil",
		"*0\r\n":                                "[]",
		"*3\r\n:1\r\n$-1\r\n*2\r\n+a\r\n*0\r\n": `[1 nil ["a" []]]`,
		"$1048576\r\n" + big + "\r\n":           strconv.Quote(big),
		strings.Repeat("*1\r\n", 30) + ":1\r\n": strings.Repeat("[", 30) + "1" + strings.Repeat("]", 30),
	} {
		v, err := read(in)
		if err != nil || v.String() != want {
			t.Errorf("Read(%.60q) = %.60v, %v, want %.60s", in, v, err, want)
		}
	}
}

// Exactly one reply is read from the stream, errors included.
func TestReadLeavesTheNextReply(t *testing.T) {
	for _, in := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$3\r\nabc\r\n", "$-1\r\n",
		"*2\r\n-ERR a\r\n-ERR b\r\n", "*2\r\n*1\r\n-ERR deep\r\n:7\r\n", "*0\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(in + ":4711\r\n"))
		var reply resp.ReplyError
		if _, err := resp.Read(r); err != nil && !errors.As(err, &reply) {
			t.Errorf("%q: %v", in, err)
		}
		if v, err := resp.Read(r); err != nil || v.Int() != 4711 {
			t.Errorf("after %q comes %v, %v, want 4711", in, v, err)
		}
	}
}

func TestReadErrorReplies(t *testing.T) {
	for in, want := range map[string]resp.ReplyError{
		"-NOSCRIPT No matching script.\r\n":    "NOSCRIPT No matching script.",
		"-\r\n":                                "",
		"*2\r\n:1\r\n-ERR inside\r\n":          "ERR inside",
		"*2\r\n*1\r\n-ERR deep\r\n:1\r\n":      "ERR deep",
		"*1\r\n*2\r\n+a\r\n*1\r\n-ERR x y\r\n": "ERR x y",
	} {
		_, err := read(in)
		var got resp.ReplyError
		if !errors.As(err, &got) || got != want {
			t.Errorf("Read(%q): %v, want the reply error %q", in, err, want)
		}
	}
}

// Anything that is not a reply leaves the connection unusable, so it must not look like one, nor
// like an error reply.
func TestReadRefuses(t *testing.T) {
	for _, in := range []string{
		"", "\r\n", "+", "+OK", "+OK\n", "OK\r\n", ":\r\n", ":1x\r\n", ": 1\r\n", ":9223372036854775808\r\n",
		"$\r\n", "$x\r\n", "$3\r\nab", "$3\r\nabc", "$3\r\nabcd\r\n", "$3\r\nabcXY", "$0\r\nxx",
		"*x\r\n", "*1\r\n", "*2\r\n:1\r\n", "*1\r\n$9\r\nabc\r\n", "*1\r\n?\r\n",
		"%1\r\n+a\r\n+b\r\n", "_\r\n", "#t\r\n", // RESP3, which was not requested
		"$-2\r\n", "*-2\r\n",
		// Excessive lengths must not be believed before their bytes come.
		"$9223372036854775807\r\nabc\r\n", "$9223372036854775806\r\nabc\r\n", "$536870912\r\nabc\r\n",
		"*9223372036854775807\r\n", "*1000000000\r\n:1\r\n", "*4611686018427387904\r\n",
		strings.Repeat("*1\r\n", 1<<20),
	} {
		v, err := read(in)
		var reply resp.ReplyError
		if err == nil || errors.As(err, &reply) {
			t.Errorf("Read(%.60q) = %.60v, %v, want an error that is no reply", in, v, err)
		}
	}
}

func TestReadPassesOnWhyTheConnectionFailed(t *testing.T) {
	for _, in := range []string{"", ":1", "$3\r\nab", "*2\r\n:1\r\n"} {
		if _, err := read(in); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Read(%q) and then the end: %v, want EOF", in, err)
		}
	}
}

// write writes v as a server would.
func write(b *strings.Builder, v driver.Value) {
	switch v.Kind() {
	case driver.Nil:
		b.WriteString("$-1\r\n")
	case driver.Int:
		b.WriteString(":" + strconv.FormatInt(v.Int(), 10) + "\r\n")
	case driver.String:
		b.WriteString("$" + strconv.Itoa(len(v.Str())) + "\r\n" + v.Str() + "\r\n")
	case driver.Array:
		b.WriteString("*" + strconv.Itoa(v.Len()) + "\r\n")
		for i := range v.Len() {
			write(b, v.At(i))
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
		"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n", "$9223372036854775807\r\n", "*99999999999\r\n", "*1\r\n*1\r\n*1\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		v, err := read(in)
		if err != nil {
			return // it did not panic
		}
		// What was understood must mean the same when it is written again.
		var b strings.Builder
		write(&b, v)
		again, err := read(b.String())
		if err != nil || again.String() != v.String() {
			t.Errorf("%q is %v, but %q is %v, %v", in, v, b.String(), again, err)
		}
	})
}

// A command that was appended reads back as an array of its arguments, and
// nothing in an argument can end it early.
func FuzzAppend(f *testing.F) {
	f.Add("SET", "k", "v")
	f.Add("", "\r\n", "$1\r\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		v, err := read(string(resp.Append(nil, a, b, c)))
		if err != nil || v.Len() != 3 || v.At(0).Str() != a || v.At(1).Str() != b || v.At(2).Str() != c {
			t.Errorf("%q, %q, %q reads back as %v, %v", a, b, c, v, err)
		}
	})
}
