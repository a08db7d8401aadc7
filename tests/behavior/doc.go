// Package behavior tests what locks do, from outside, in virtual time. It needs
// nothing but Go: Redis is embedded. Its tests run in parallel, each in a bubble
// of its own (see locktest.Bubble).
package behavior
