package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/mortise-go/mortise/driver"
)

// Sentinel is a sentinel to ask about the master.
type Sentinel struct {
	Addr string
	// Driver is connected to it; nil if that failed. It must be a driver.Commander.
	Driver driver.Driver
	Err    error // why there is no driver
}

// opinion is what a sentinel says of the master.
type opinion struct {
	addr              string // of the master
	flags             string
	peers, quorum     int // other sentinels, and how many must agree that the master is down
	replicas          int
	sentinel, failure string // the failure is empty if it has answered
}

// sentinels looks at whether the sentinels agree, and can replace the master.
func (e *exam) sentinels(ctx context.Context) {
	if len(e.o.Sentinels) == 0 {
		return
	}
	var answered []opinion
	var silent []string
	for _, s := range e.o.Sentinels {
		o := e.opinion(ctx, s)
		if o.failure != "" {
			silent = append(silent, s.Addr+" ("+o.failure+")")
			continue
		}
		answered = append(answered, o)
	}
	f := judgedSentinels(answered, silent)
	f.ID, f.Group = "sentinels", GroupTopology
	if f.Severity != OK {
		f.Command = e.o.RedisCLI(e.o.Sentinels[0].Addr) + " sentinel master " + word(e.o.Master)
	}
	e.add(f)
}

// opinion asks a sentinel.
func (e *exam) opinion(ctx context.Context, s Sentinel) opinion {
	o := opinion{sentinel: s.Addr}
	c, ok := s.Driver.(driver.Commander)
	if !ok {
		o.failure = "it cannot be reached"
		if s.Err != nil {
			o.failure = said(s.Err)
		}
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	servers, err := c.Servers(ctx)
	if err == nil {
		var v driver.Value
		if v, err = c.Command(ctx, servers[0], "SENTINEL", "MASTER", e.o.Master); err == nil {
			o.read(v)
			return o
		}
	}
	o.failure = said(err)
	return o
}

// read reads the answer to SENTINEL MASTER.
func (o *opinion) read(v driver.Value) {
	f := make(map[string]string)
	for i := 0; i+1 < v.Len(); i += 2 {
		f[v.At(i).Str()] = v.At(i + 1).Str()
	}
	o.addr, o.flags = f["ip"]+":"+f["port"], f["flags"]
	o.peers, _ = strconv.Atoi(f["num-other-sentinels"])
	o.quorum, _ = strconv.Atoi(f["quorum"])
	o.replicas, _ = strconv.Atoi(f["num-slaves"])
}

// judgedSentinels returns what is to be said of sentinels that have answered, and of those that have not.
func judgedSentinels(answered []opinion, silent []string) Finding {
	if len(answered) == 0 {
		return Finding{Severity: Critical, Found: "no sentinel answers about the master: " + listed(silent), Do: "If the master fails, nobody replaces it. See whether the sentinels run, and know the master by this name."}
	}
	first, total := answered[0], 0
	for _, o := range answered {
		total = max(total, o.peers+1)
		if o.addr != first.addr {
			return Finding{
				Severity: Critical, Found: fmt.Sprintf("the sentinels name different masters: %s says %s, and %s says %s", first.sentinel, quoted(first.addr), o.sentinel, quoted(o.addr)),
				Do: "Locks can have two holders. If this lasts for longer than a failover, look at the network between the sentinels.",
			}
		}
		if strings.Contains(o.flags, "down") || strings.Contains(o.flags, "disconnected") {
			return Finding{Severity: Critical, Found: fmt.Sprintf("%s takes the master for down (%s)", o.sentinel, quoted(o.flags)), Do: "A failover may come, and forgets the locks that no replica has. Look at the master."}
		}
	}
	switch {
	case len(answered) <= total/2 || len(answered) < first.quorum:
		return Finding{Severity: Critical, Found: fmt.Sprintf("sentinels that answer: %d of %d; without a majority nobody replaces a master that fails. Those that do not: %s", len(answered), total, listed(silent)), Do: "Bring the others back."}
	case len(silent) > 0:
		return Finding{Severity: Warning, Found: "sentinels that do not answer: " + listed(silent), Do: "Bring them back, or remove them from the URL."}
	case total < 3:
		return Finding{Severity: Warning, Found: fmt.Sprintf("sentinels: %d; if one fails, the others are no majority, and nobody replaces a master that fails", total), Do: "Run three."}
	case first.replicas == 0:
		return Finding{Severity: Warning, Found: "the sentinels know no replica: there is nothing to replace the master with", Do: "Add a replica."}
	}
	return Finding{Severity: OK, Found: fmt.Sprintf("the sentinels agree on the master, %s: %d of %d answer", said(text(first.addr)), len(answered), total)}
}
