// Package redistest runs real Redis servers for tests, and breaks them.
//
// Every server listens on a free loopback port, keeps its files in a
// directory of its own, and ends with the test that started it, also if the
// test fails, panics or is killed. The program is redis-server from PATH, or
// what the environment variable REDIS_SERVER_BIN names. If it is missing, the
// test fails: a test that needs a server and cannot have one has not passed.
package redistest
