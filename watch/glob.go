package watch

// Literal reports whether pattern matches one name only, and returns that name.
func Literal(pattern string) (name string, ok bool) {
	var b []byte
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*', '?', '[':
			return "", false
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
			b = append(b, pattern[i])
		default:
			b = append(b, c)
		}
	}
	return string(b), true
}

// Match reports whether a name matches a glob pattern as Redis does it: * ? [abc] [^a] [a-z], and \ before
// a character that means itself. It takes a time of the order of len(pattern)*len(name).
func Match(pattern, name string) bool {
	star, from := -1, 0 // the last * of the pattern, and what it is tried to match up to
	p, n := 0, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, from = p, n
			p++
			continue
		}
		if next, ok := matchOne(pattern, p, name[n]); ok {
			p, n = next, n+1
			continue
		}
		if star < 0 {
			return false
		}
		from++
		p, n = star+1, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte against the element of the pattern at p, and returns where the next one is.
func matchOne(pattern string, p int, c byte) (next int, ok bool) {
	if p >= len(pattern) {
		return p, false
	}
	switch pattern[p] {
	case '?':
		return p + 1, true
	case '[':
		return matchClass(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return p + 1, pattern[p] == c
}

// matchClass matches one byte against the class whose text begins at p.
func matchClass(pattern string, p int, c byte) (next int, ok bool) {
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	found := false
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			found = found || pattern[p] == c
		case p+2 < len(pattern) && pattern[p+1] == '-':
			low, high := min(pattern[p], pattern[p+2]), max(pattern[p], pattern[p+2])
			found = found || low <= c && c <= high
			p += 2
		default:
			found = found || pattern[p] == c
		}
	}
	return min(p+1, len(pattern)), found != not
}
