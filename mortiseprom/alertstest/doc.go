// Package alertstest tests the alerts and the dashboard of mortiseprom with the rule engine and the storage
// of Prometheus itself. It is a module of its own, outside the workspace: what Prometheus requires is
// nothing that others need to load.
//
//	cd mortiseprom/alertstest && GOWORK=off go test .
package alertstest
