// Package server tests what virtual time and an embedded Redis cannot show:
// real servers, clusters and failovers, connections that break, processes that
// freeze. It needs redis-server; each test starts its own (see
// internal/redistest).
package server
