package doctor

import "slices"

// ids are those of all findings, in the order of docs/doctor.md.
var ids = []string{
	"connection", "connection-resolve", "connection-connect", "connection-tls", "connection-auth",
	"silent-server", "server-version", "scripts", "script-latency", "writes", "clock", "clock-between-servers",
	"role", "sentinels", "cluster-state", "replicas", "min-replicas",
	"persistence", "eviction", "memory",
	"max-clients", "pubsub-buffer", "tcp-keepalive", "idle-timeout", "keyspace-events",
	"messages", "sharded-messages",
	"rights", "rights-records",
	"keys", "lock-without-ttl", "fair-queue-dead",
	"permits", "permits-expired", "permits-without-number", "permits-endless", "permits-below-zero", "tokens-unused",
	"silent-client", "deadlock", "versions", "libraries",
}

// IDs returns the ids that findings can have.
func IDs() []string { return slices.Clone(ids) }
