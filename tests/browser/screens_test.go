package browser

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/mortise-go/mortise/internal/fleet"
)

// Newcomers find from the first page alone, without a click, who blocks a stuck deploy. With -screens, the pictures of the
// documents are written.
func TestScreens(t *testing.T) {
	s := newSite(t)
	s.lively(fleet.StuckDeploy, fleet.FairQueue, fleet.Permits)
	b := newTab(t)
	if *screens { // a while of waiting looks more like one
		b.open(s.url + "lock?name=deploy")
		b.await(`/for (1[2-9]|[2-9]\d)s/.test(document.querySelector('.answer')?.textContent)`)
	}
	for _, one := range []struct {
		file, page, scheme, text string
		width, height            int64
	}{
		{"locks-light.png", "", "light", "store-1 pid 30771", 1440, 900},
		{"locks-dark.png", "", "dark", "store-1 pid 30771", 1440, 900},
		{"locks-phone.png", "", "light", "store-1 pid 30771", 390, 844},
		{"lock-light.png", "lock?name=deploy", "light", "Its holder waits, too", 1440, 900},
		{"lock-dark.png", "lock?name=outbox", "dark", "Waiting, the next one first", 1440, 1200},
	} {
		b.media(one.scheme, one.width)
		b.do(chromedp.EmulateViewport(one.width, one.height, chromedp.EmulateScale(1.5)))
		b.open(s.url + one.page)
		b.await(has(one.text) + ` && document.getElementById('state').textContent === 'Live'`)
		if strings.HasSuffix(one.page, "outbox") {
			b.await(`/for [1-9]s/.test(document.querySelector('.answer').textContent)`) // some time after a hand-over
		}
		if eval[bool](b, `document.documentElement.scrollWidth > innerWidth`) {
			t.Errorf("%s is wider than its window", one.file)
		}
		if one.page == "" && !eval[bool](b, `[...document.querySelectorAll('.roots a')].some((a) => a.textContent === 'store-1 pid 30771' && a.getBoundingClientRect().bottom < innerHeight)`) {
			t.Errorf("%s: the process that blocks the deploy is not on the screen", one.file)
		}
		if !*screens {
			continue
		}
		picture, err := chromedp.Run(b.ctx, func(ctx context.Context, tab *chromedp.Target) ([]byte, error) {
			got, err := cdp.Call(ctx, tab, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng})
			return got.Data, err
		})
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join("..", "..", "docs", "screens")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, one.file), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	call(b, emulation.ClearDeviceMetricsOverride, cdp.Empty{})
}
