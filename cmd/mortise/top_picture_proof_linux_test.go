//go:build proof

package main

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"html"
	"image/color"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	uv "github.com/charmbracelet/ultraviolet"

	"github.com/mortise-go/mortise/internal/record"
)

var topPicture = flag.String("picture", "", "draw mortise top to this file")

// The picture in docs/observability.md shows mortise top as it looks in a terminal of 80 columns. To draw it anew:
// make picture.
func TestTopPicture(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.fleet()
	top := openTop(t, s.server.Addr(), 80, 24)
	top.row(t, "deploy:checkout", "api-7", " 4 ")
	top.shows(t, "locks 30", "deadlock")
	top.until(t, "what it costs when it has settled", func(text string) bool { return regexp.MustCompile(` [1-8][0-9] of 100 commands/s`).MatchString(text) })
	svg := drawScreen(top)
	if err := xml.Unmarshal(svg, new(struct{})); err != nil {
		t.Fatalf("%v\n%s", err, svg)
	}
	if n := strings.Count(string(svg), "<tspan"); n < 60 {
		t.Errorf("the picture has %d texts, want more\n%s", n, svg)
	}
	if *topPicture != "" {
		if err := os.WriteFile(*topPicture, svg, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fleet writes the records of processes that hold and wait for many locks.
func (s *scene) fleet() {
	now := time.Now()
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	id := func(n int) string { return fmt.Sprintf("b0e3ef4e-9ef8-8e3d-aa95-a5d1ad3a%04d", n) }
	processes := make([]record.Body, 17)
	for i, host := range []string{"api-7", "api-8", "db-2", "api-9", "web-1", "web-2", "batch-1", "batch-2", "pay-1", "pay-2", "pay-3", "api-5", "search-1", "search-2", "mail-1", "mail-2", "cron-1"} {
		app, _, _ := strings.Cut(host, "-")
		processes[i] = record.Body{Host: host, PID: 4121 + 773*i%5000, App: app, Started: ago(time.Hour)}
	}
	holds := func(n int, name, kind string, since, lease time.Duration) {
		p := &processes[n]
		owner := fmt.Sprintf("%s:%d", id(n), len(p.Holds)+1)
		p.Holds = append(p.Holds, record.Hold{Name: name, Kind: kind, Owner: owner, Since: ago(since)})
		s.server.Must(s.T, "HSET", name, owner, "1")
		s.server.Must(s.T, "PEXPIRE", name, fmt.Sprint(lease.Milliseconds()))
	}
	waits := func(n int, name, kind string, since time.Duration, holder int, under ...record.Under) {
		processes[n].Waits = append(processes[n].Waits, record.Wait{Name: name, Kind: kind, Since: ago(since), For: id(holder) + ":1", Under: under})
	}
	own := func(n int, name string) record.Under { return record.Under{Name: name, Owner: id(n) + ":1"} }
	const s1, m1, h1 = time.Second, time.Minute, time.Hour
	holds(0, "deploy:checkout", "lock", 3*m1+22*s1, 26*s1)
	holds(2, "migrate:orders", "fencedlock", 3*m1+31*s1, 22*s1)
	holds(8, "ledger:2026-11", "fairlock", 48*s1, 29*s1)
	holds(9, "payout:eu", "lock", 12*s1, 21*s1)
	holds(10, "payout:us", "lock", 13*s1, 24*s1)
	holds(4, "session:rotate", "lock", 2*s1, 28*s1)
	holds(16, "nightly-report", "lock", 2*h1+5*m1, 27*s1)
	holds(6, "import:suppliers", "lock", 41*m1+7*s1, 23*s1)
	for i, name := range []string{"index:products", "index:articles", "mail:digest", "mail:bounces", "cache:warm", "thumbs:resize"} {
		holds(11+i%5, name, "lock", time.Duration(70-9*i)*s1, time.Duration(29-i)*s1)
	}
	for i := range 16 {
		holds(3+i%4, fmt.Sprintf("order:%d", 48213+37*i), "lock", time.Duration(29-i)*s1, time.Duration(14+i%15)*s1)
	}
	waits(0, "migrate:orders", "fencedlock", 3*m1+20*s1, 2, own(0, "deploy:checkout"))
	for i, n := range []int{1, 3, 5, 11} {
		waits(n, "deploy:checkout", "lock", 3*m1+12*s1-time.Duration(i)*31*s1, 0)
	}
	waits(9, "ledger:2026-11", "fairlock", 11*s1, 8)
	waits(12, "ledger:2026-11", "fairlock", 8*s1, 8)
	waits(9, "payout:us", "lock", 10*s1, 10, own(9, "payout:eu"))
	waits(10, "payout:eu", "lock", 9*s1, 9, own(10, "payout:us"))
	for i, p := range processes {
		p.HoldCount, p.WaitCount = len(p.Holds), len(p.Waits)
		body, err := json.Marshal(p)
		if err != nil {
			s.Fatal(err)
		}
		s.server.Must(s.T, "HSET", "mortise:client:{"+id(i)+"}", "body", string(body), "at", fmt.Sprint(now.UnixMilli()), "edition", "5")
		s.server.Must(s.T, "ZADD", "mortise:clients:{all}", fmt.Sprint(ago(-h1)), id(i))
	}
}

// The size of a cell of the picture.
const cellWidth, cellHeight = 8.4, 18

// drawScreen returns what a screen shows, in the colours of a light or a dark page.
func drawScreen(s *topScreen) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	columns, lines := s.vt.Width(), s.vt.Height()
	width, height := float64(columns)*cellWidth+24, lines*cellHeight+24
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">
<title>mortise top: locks by pain, with their holders, what is left of their leases, and how many wait</title>
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#24292f;white-space:pre}
.p{fill:#fff;stroke:#d0d7de}.b{font-weight:600}.f{fill:#57606a}.a{fill:#0969da;font-weight:600}.r{fill:#cf222e;font-weight:600}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.p{fill:#0d1117;stroke:#30363d}.f{fill:#8b949e}.a{fill:#58a6ff}.r{fill:#ff7b72}}
</style>
<rect class="p" x=".5" y=".5" width="%.0f" height="%d" rx="8"/>
`, width, height, width, height, width-1, height-1)
	for y := range lines {
		fmt.Fprintf(&b, "<text y=\"%d\">", 12+y*cellHeight+13)
		for x := 0; x < columns; {
			from, class, text := x, cellClass(s.vt.CellAt(x, y)), ""
			for x < columns && cellClass(s.vt.CellAt(x, y)) == class {
				c := s.vt.CellAt(x, y)
				if c == nil || c.Content == "" {
					text, x = text+" ", x+1
					continue
				}
				text, x = text+c.Content, x+max(1, c.Width)
			}
			if strings.TrimSpace(text) != "" {
				fmt.Fprintf(&b, "<tspan x=\"%.1f\" class=\"%s\" textLength=\"%.1f\">%s</tspan>", 12+float64(from)*cellWidth, class, float64(x-from)*cellWidth, html.EscapeString(text))
			}
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// cellClass returns how a cell stands out.
func cellClass(c *uv.Cell) string {
	if c == nil {
		return "n"
	}
	switch {
	case c.Style.Fg != nil && reddish(c.Style.Fg):
		return "r"
	case c.Style.Fg != nil:
		return "a"
	case c.Style.Attrs&uv.AttrFaint != 0:
		return "f"
	case c.Style.Attrs&uv.AttrBold != 0:
		return "b"
	}
	return "n"
}

func reddish(c color.Color) bool {
	r, _, b, _ := c.RGBA()
	return r > b
}
