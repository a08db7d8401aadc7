package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/dashboard"
)

const serveLong = `serve shows the locks on web pages until it is interrupted: who holds what, who waits
for it, who blocks whom, deadlocks, events as they happen. It is read-only, unless
--release allows browsers to ask holders to release a lock, and to release it by
force, after a question; each release is written to stderr.

It listens on 127.0.0.1, for this machine only. Others reach it over ssh:

  ssh -L 8080:127.0.0.1:8080 HOST

For an address that other machines can reach it demands --auth-file and TLS, or
--insecure, which leaves both to you, as to a proxy in front. The file has a line for
each user, NAME:PASSWORD, with at least 16 bytes of password, and must not be readable by
others. Browsers ask for the two; curl has them in -u.

A request must be for a name of the server, as a page of another site could reach it
under its own name otherwise: for a loopback name, the host of --listen, or a --host.

However many browsers look, it sends Redis at most --load commands a second, and every
ten seconds a few while none looks. docs/dashboard.md says what it shows. With --demo it
shows a fleet of clients on an embedded Redis, and prints how top, who and show find it.

The dashboard is also a package, for a server of your own:
github.com/mortise-go/mortise/dashboard`

// serveFlags are the flags of serve.
type serveFlags struct {
	listen            string
	hosts             []string
	title             string
	release, insecure bool
	demo              bool
	authFile          string
	tlsCert, tlsKey   string
	load              int
}

// demoTitle is the title of the demonstration.
const demoTitle = "mortise demo"

// defaultServe are the values of the flags that are not given.
var defaultServe = serveFlags{listen: "127.0.0.1:8080", load: 100}

func serveCommand(a *app) *cobra.Command {
	f := defaultServe
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"dashboard", "web", "ui", "http"},
		Short:      "Show locks on web pages: who holds what, and who blocks whom",
		Long:       serveLong + asks("ended by SIGINT or SIGTERM", "  74  the output cannot be written"),
		Example:    "  mortise serve --demo\n  mortise serve --title staging --prefix staging:\n  mortise serve --listen :8443 --host locks.example.org --auth-file users --tls-cert cert.pem --tls-key key.pem",
		Args:       cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := a.untilSignal(cmd.Context())
			defer stop()
			return a.showPages(ctx, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", f.listen, "`host:port` to listen on; port 0 means any free port")
	flags.StringArrayVar(&f.hosts, "host", nil, "`NAME` under which browsers reach it, besides loopback names and that of --listen; may be repeated")
	flags.StringVar(&f.title, "title", "", "`TEXT` on top of each page, to tell environments apart")
	flags.BoolVar(&f.release, "release", false, "allow browsers to release locks")
	flags.StringVar(&f.authFile, "auth-file", "", "`FILE` with a line NAME:PASSWORD for each user")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "`FILE` with the server's certificates, in PEM form")
	flags.StringVar(&f.tlsKey, "tls-key", "", "`FILE` with their key")
	flags.BoolVar(&f.insecure, "insecure", false, "allow an address that others can reach without --auth-file or TLS")
	flags.IntVar(&f.load, "load", f.load, "send Redis at most `N` commands a second")
	flags.BoolVar(&f.demo, "demo", false, "show a fleet of clients on an embedded Redis; needs no Redis")
	return cmd
}

// check checks the flags, and returns the address to listen on.
func (f *serveFlags) check(a *app) (*net.TCPAddr, error) {
	tcp, err := net.ResolveTCPAddr("tcp", f.listen)
	switch {
	case err != nil:
		return nil, usageError("Write it as 127.0.0.1:8080, or 127.0.0.1:0 for any free port.", "--listen %s is not an address to listen on: %w", f.listen, err)
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return nil, usageError("", "--tls-cert and --tls-key go together")
	case f.load < leastLoad || f.load > mostLoad:
		return nil, usageError("", "--load is %d; it must be from %d to %d", f.load, leastLoad, mostLoad)
	case f.demo && (a.redis != "" || a.passwordFile != "" || a.prefix.given()):
		return nil, usageError("Without --demo it shows the locks of your own Redis.", "serve --demo has a Redis of its own, and takes no --redis, --password-file or --prefix")
	}
	return tcp, f.checkPublic(tcp)
}

// checkPublic checks what an address demands that other machines can reach.
func (f *serveFlags) checkPublic(tcp *net.TCPAddr) error {
	switch {
	case tcp.IP.IsLoopback():
	case f.insecure && f.authFile == "" && len(f.hosts) == 0 && (tcp.IP == nil || tcp.IP.IsUnspecified()):
		return usageError("As in: mortise serve --listen "+f.listen+" --insecure --host locks.example.org",
			"without --auth-file, --insecure needs --host: the name under which browsers reach it; any site could read it under its own name otherwise")
	case f.insecure:
	case f.authFile == "" && f.tlsCert == "":
		return usageError("Listen on 127.0.0.1 and use ssh -L; or give --auth-file, --tls-cert and --tls-key; or --insecure, if a proxy in front does both.",
			"--listen %s can be reached by other machines, and would show everybody who holds what", f.listen)
	case f.authFile == "":
		return usageError("Listen on 127.0.0.1 and use ssh -L, or give --auth-file; --insecure, if a proxy in front asks for passwords.",
			"--listen %s can be reached by other machines, and would show everybody who holds what", f.listen)
	case f.tlsCert == "":
		return usageError("Give --tls-cert and --tls-key; --insecure, if a proxy in front does that.",
			"--listen %s can be reached by other machines, and passwords would be sent as plain text", f.listen)
	}
	return nil
}

// names returns the names under which the server may be reached; none if any may.
func (f *serveFlags) names(tcp *net.TCPAddr) []string {
	if !tcp.IP.IsLoopback() && len(f.hosts) == 0 && (tcp.IP == nil || tcp.IP.IsUnspecified()) {
		return nil // it has passwords, which browsers do not send to another name
	}
	names := append([]string{"localhost", "127.0.0.1", "[::1]"}, f.hosts...)
	if host, _, err := net.SplitHostPort(f.listen); err == nil && host != "" && !tcp.IP.IsUnspecified() {
		names = append(names, host, tcp.IP.String())
	}
	return names
}

// showPages serves the dashboard until ctx ends, which is not an error.
func (a *app) showPages(ctx context.Context, f *serveFlags) error {
	tcp, err := f.check(a)
	if err != nil {
		return err
	}
	users, err := readUsers(f.authFile)
	if err != nil {
		return err
	}
	redis, err := a.shownRedis(ctx, f.demo)
	if err != nil {
		return err
	}
	defer redis.end()
	if f.title == "" && f.demo {
		f.title = demoTitle
	}
	pages := dashboard.New(redis.driver, &dashboard.Options{
		Title: f.title, Prefix: redis.prefix, Load: f.load, Release: f.release || f.demo, Hosts: f.names(tcp), Logger: slog.New(slog.NewTextHandler(a.stderr, nil)),
		Mortise: redis.mortise(), RedisCLI: redis.redisCLI(),
	})
	defer func() { _ = pages.Close() }() // for the second time, unless it cannot listen
	listener, err := net.ListenTCP("tcp", tcp)
	if err != nil {
		return f.listenError(tcp.String(), err)
	}
	server := &http.Server{
		Handler: users.guard(pages), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: log.New(serverLog{a}, "", 0),
	}
	served := make(chan error, 1)
	go func() {
		if f.tlsCert != "" {
			served <- server.ServeTLS(listener, f.tlsCert, f.tlsKey)
			return
		}
		served <- server.Serve(listener)
	}()
	fmt.Fprintf(a.stdout, "The dashboard is at %s\n", f.address(listener.Addr()))
	if f.demo {
		redis.sayDemo(a)
	}
	fmt.Fprintf(a.stdout, "Ctrl-C ends it.\n")
	return a.untilServed(ctx, server, pages, served)
}

// untilServed waits for the end of ctx, or of the server, and ends both.
func (a *app) untilServed(ctx context.Context, server *http.Server, pages *dashboard.Dashboard, served <-chan error) error {
	select {
	case err := <-served: // before it was told to
		return usageError("", "the dashboard cannot be served: %w", err)
	case <-ctx.Done():
	}
	_ = pages.Close() // which ends the streams
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if err := a.stdout.failure(); err != nil {
		return err
	}
	a.say("the dashboard has ended (%v)", context.Cause(ctx))
	return nil
}

// address returns the URL of the dashboard.
func (f *serveFlags) address(listens net.Addr) string {
	scheme, host := "http", listens.String()
	if f.tlsCert != "" {
		scheme = "https"
	}
	if tcp, ok := listens.(*net.TCPAddr); ok && (len(f.hosts) > 0 && !tcp.IP.IsLoopback() || tcp.IP.IsUnspecified()) {
		name := "localhost"
		if len(f.hosts) > 0 {
			name = f.hosts[0]
		}
		host = net.JoinHostPort(name, fmt.Sprint(tcp.Port))
	}
	return scheme + "://" + host + "/"
}

// listenError explains why the dashboard cannot listen on an address.
func (f *serveFlags) listenError(addr string, err error) error {
	e := &exitError{code: exitUnreachable, err: fmt.Errorf("cannot listen on %s: %w", addr, err)}
	if errors.Is(err, syscall.EADDRINUSE) {
		e.hint = "Another server listens there. The same with a free port: --listen 127.0.0.1:0"
		if f.demo {
			e.hint = "Another server listens there. With a free port: " + f.demoLine("127.0.0.1:0")
		}
	}
	return e
}

// demoLine returns the command that shows the demonstration, on another address.
func (f *serveFlags) demoLine(listen string) string {
	words := []string{"mortise", "serve", "--demo", "--listen", listen}
	if f.title != "" && f.title != demoTitle {
		words = append(words, "--title", f.title)
	}
	if f.load != defaultServe.load {
		words = append(words, "--load", strconv.Itoa(f.load))
	}
	return shellQuoteAll(words)
}

// serverLog writes what a server of HTTP has to say, but for clients that speak no TLS.
type serverLog struct{ app *app }

func (l serverLog) Write(p []byte) (int, error) {
	if text := strings.TrimSpace(string(p)); !strings.Contains(text, "TLS handshake error") {
		l.app.say("%s", text)
	}
	return len(p), nil
}
