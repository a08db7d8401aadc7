package driver

import "fmt"

// Kind is the type of a [Value].
type Kind uint8

// The kinds of reply that scripts give.
const (
	Nil Kind = iota
	Int
	String
	Array
)

// Value is a reply of a script: nil, an integer, a string or an array. Scripts of mortise never
// reply anything else; a driver reports other types as an error of class [Other].
type Value struct {
	kind  Kind
	num   int64
	str   string
	items []Value
}

// IntValue returns an integer reply.
func IntValue(n int64) Value { return Value{kind: Int, num: n} }

// StringValue returns a string reply.
func StringValue(s string) Value { return Value{kind: String, str: s} }

// ArrayValue returns an array reply. It keeps items.
func ArrayValue(items []Value) Value { return Value{kind: Array, items: items} }

// CodeValue returns an array reply of one integer, the most frequent reply of scripts.
func CodeValue(n int64) Value {
	if i := n - codes[0].num; i >= 0 && i < int64(len(codes)) {
		return Value{kind: Array, items: codes[i : i+1 : i+1]}
	}
	return Value{kind: Array, items: []Value{IntValue(n)}}
}

// codes are frequent integer replies. Values share them: they are never written to.
var codes = [...]Value{IntValue(-2), IntValue(-1), IntValue(0), IntValue(1), IntValue(2)}

// Kind returns the value's type.
func (v Value) Kind() Kind { return v.kind }

// Int returns an integer reply, and 0 for any other kind.
func (v Value) Int() int64 { return v.num }

// Str returns a string reply, and "" for any other kind.
func (v Value) Str() string { return v.str }

// Len returns the number of items of an array reply, and 0 for any other kind.
func (v Value) Len() int { return len(v.items) }

// At returns item i of an array reply, and nil if there is no such item.
func (v Value) At(i int) Value {
	if i < 0 || i >= len(v.items) {
		return Value{}
	}
	return v.items[i]
}

// String formats the value for error messages and test failures.
func (v Value) String() string {
	switch v.kind {
	case Int:
		return fmt.Sprint(v.num)
	case String:
		return fmt.Sprintf("%q", v.str)
	case Array:
		return fmt.Sprint(v.items)
	default:
		return "nil"
	}
}
