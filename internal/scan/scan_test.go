package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// servers have two pages each; the one called silent answers when ctx ends, and the one called gone not at all.
func servers(ctx context.Context, server string, fn func([]string) error) error {
	for _, page := range []string{"1", "2"} {
		switch server {
		case "silent":
			<-ctx.Done()
			return ctx.Err()
		case "gone":
			return errors.New("refused")
		}
		if err := fn([]string{server + page}); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return nil
}

func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		collect := func(keys []string) error { got = append(got, keys...); return nil }
		if err := All(t.Context(), []string{"a", "b"}, servers, collect); err != nil {
			t.Error(err)
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"a1", "a2", "b1", "b2"}) {
			t.Errorf("the keys are %v", got)
		}

		got = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := All(ctx, []string{"silent", "a", "gone"}, servers, collect)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "silent: ") || !strings.Contains(err.Error(), "gone: refused") {
			t.Errorf("the error is %v, want those of two servers", err)
		}
		if names := Servers(fmt.Errorf("list: %w", err)); !slices.Equal(names, []string{"silent", "gone"}) {
			t.Errorf("it names %v", names)
		}
		if !slices.Equal(got, []string{"a1", "a2"}) {
			t.Errorf("the keys are %v, want those of the living server", got)
		}

		each := Each(fmt.Errorf("list: %w", err), func(err error) error { return fmt.Errorf("<%w>", err) })
		if text := each.Error(); text != "silent: <context deadline exceeded>\ngone: <refused>" {
			t.Errorf("each error is %q", text)
		}
		if one := Each(errors.New("alone"), func(error) error { return errors.New("f") }); one.Error() != "f" {
			t.Errorf("an error of no server is %v", one)
		}

		stop := errors.New("stop")
		start := time.Now()
		if err := All(t.Context(), []string{"silent", "a", "b"}, servers, func([]string) error { return stop }); !errors.Is(err, stop) || err.Error() != "stop" || time.Since(start) > 2*time.Second {
			t.Errorf("%v after %v, want the function's own error soon", err, time.Since(start))
		}
	})
}
