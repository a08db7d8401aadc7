// Package torture breaks what can be broken under real processes and real servers, by seed: it
// freezes and kills clients and servers, cuts and stalls connections, fails over, moves slots,
// sets clocks, deletes keys, forges messages and takes rights away. A witness outside Redis hears
// what the clients believe, see internal/torture, and says which promises were broken.
//
// `make torture` runs it; without arguments go test runs one short round:
//
//	cd tests/torture && go test -count=1 -timeout=0 -args -time 10m -seed 7 -only freeze
//
// A round is a deployment, a driver, a mix of locks and a nemesis. It counts only if the nemesis hit
// what it meant to hit, and the clients acquired enough: otherwise it has shown nothing, and fails.
package torture
