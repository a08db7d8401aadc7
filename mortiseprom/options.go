package mortiseprom

import "regexp"

// Options configures a [Collector]. The zero value of each field is its default.
type Options struct {
	// Name, if set, adds the label lock to the metrics that have the label kind: it returns
	// the value for the name of a lock, and an empty one for none. Each value costs a hundred
	// series or more, so it must make few of many names: [CollapseIDs] may do, or a function
	// that knows the names that matter. It is called in the goroutine of the call that
	// acquires the lock, must be quick, must not panic, must be safe for concurrent use, and
	// must always return the same for the same name. Default: no such label.
	Name func(lock string) string

	// MaxNames is how many values the label lock has at most. What Name returns beyond that
	// counts as "other". Default, also for a negative value: 100.
	MaxNames int

	// NativeHistograms makes each histogram a native one as well, with buckets that grow by a
	// tenth and at most 160 of them. A server that does not ask for those gets the others.
	NativeHistograms bool
}

const defaultMaxNames = 100

// withDefaults returns a copy of o, which may be nil, with every number set.
func (o *Options) withDefaults() Options {
	if o == nil {
		o = &Options{}
	}
	c := *o
	if c.MaxNames <= 0 {
		c.MaxNames = defaultMaxNames
	}
	return c
}

// ids are the parts of names that differ from one thing to the next: UUIDs, ULIDs, long hexadecimal
// numbers, and numbers.
var ids = regexp.MustCompile(`(?i:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})|[0-7][0-9A-HJKMNP-TV-Z]{25}|(?i:[0-9a-f]{16,})|[0-9]+`)

// CollapseIDs replaces each UUID, ULID, hexadecimal number of 16 digits or more, and decimal number
// in the name of a lock by an asterisk: order:4711 becomes order:*. It is meant for [Options.Name].
// Names that differ by words, such as those of users, stay as many as they are.
func CollapseIDs(lock string) string { return ids.ReplaceAllLiteralString(lock, "*") }
