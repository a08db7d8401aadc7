package fleet

import (
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/record"
)

// persona is what the process of a client seems to be.
type persona struct {
	host, app, version string
	pid                int
	up                 time.Duration // for how long it seems to run
}

const (
	hour = time.Hour
	day  = 24 * hour
)

// crew are the processes that run all the time. Their hosts differ.
var crew = []persona{
	{"api-7", "deploy", "2026.11.3", 4121, 4 * time.Minute},
	{"api-8", "deploy", "2026.11.3", 982, 3 * time.Minute},
	{"db-2", "cron", "1.9.0", 812, 19 * day},
	{"store-1", "backup", "3.2.1", 30771, 6 * hour},
	{"mail-1", "outbox", "5.0.2", 2210, 3 * day},
	{"mail-2", "outbox", "5.0.2", 2198, 3 * day},
	{"mail-3", "outbox", "5.0.1", 7754, 9 * day},
	{"billing-1", "billing", "8.14.0", 1406, 26 * hour},
	{"billing-2", "billing", "8.14.0", 1398, 26 * hour},
	{"worker-1", "orders", "4.7.0", 5127, 31 * hour},
	{"worker-2", "orders", "4.7.0", 5093, 31 * hour},
	{"worker-3", "orders", "4.6.9", 611, 12 * day},
	{"shop-1", "shop", "12.1.4", 77, 8 * hour},
	{"shop-2", "shop", "12.1.4", 78, 8 * hour},
	{"render-1", "render", "0.31.0", 19004, 2 * day},
	{"render-2", "render", "0.31.0", 18844, 2 * day},
	{"sched-1", "scheduler", "2.0.0", 345, 40 * day},
	{"sched-2", "scheduler", "2.0.0", 351, 40 * day},
	{"büro-3", `Zoë's <tools> & "more"`, "", 9002, 50 * time.Minute},
}

// edges are the processes that become silent and start anew.
var edges = []persona{
	{"edge-9", "sitemap", "1.4.2", 20417, 11 * hour},
	{"edge-11", "sitemap", "1.4.2", 20983, 11 * hour},
}

// operator is the process that looks at the others.
var operator = persona{"ops-1", "oncall", "1.0.0", 1188, 20 * time.Minute}

// historyOf is how many acquisitions each lock keeps.
const historyOf = 40

// options returns the options of a client of that process.
func (p *persona) options(prefix string) *mortise.Options {
	return &mortise.Options{
		Identity: mortise.Identity{Host: p.host, App: p.app, Version: p.version},
		Prefix:   prefix, History: historyOf, AllowAnyName: true, // among the names are odd ones
	}
}

// The names of the locks.
const (
	deploy    = "deploy"
	migrate   = "migrate"
	backup    = "backup"
	invoice   = "invoice:7731"
	ledger    = "ledger"
	outbox    = "outbox"
	sitemap   = "sitemap"
	legacy    = "legacy:import"
	catalog   = "catalog"
	payments  = "payments"
	stockEU   = "stock:eu"
	stockUS   = "stock:us"
	seats     = "seats:gala"
	counter   = "counter"
	nightly   = "nightly"
	gpu       = "gpu"
	smtp      = "smtp"
	scheduler = "scheduler"
	rollup    = "rollup"
	reindex   = "reindex"
	parts     = "import:parts"
)

var orders = []string{"order:42", "order:17", "order:101"}

// oddNames are names that a page or a terminal must quote.
var oddNames = []string{
	`<b>kunde</b> "Müller & Söhne"`,
	"倉庫:東京/7",
	"🚚 tour 9",
	"bell\a and \x1b[31mred\x1b[0m",
	"s3://archive/eu-central-1/exports/2026/11/25/customers/part-00017-of-00512.snappy.parquet",
}

// locks returns all names.
func locks() []string {
	names := []string{deploy, migrate, backup, invoice, ledger, outbox, sitemap, legacy, catalog, payments, stockEU, stockUS, seats, counter, nightly, gpu, smtp, scheduler, rollup, reindex, parts}
	return append(append(names, orders...), oddNames...)
}

const (
	gpuPermits  = 3
	smtpPermits = 4
	partsCount  = 6
	fairWaiters = 4
	// silentAfter is when a client is shown as silent, and silentFresh for how long after that it has become
	// so only a moment ago: it stays visible for ten seconds more.
	silentAfter = record.Overdue
	silentFresh = 5 * time.Second
)
