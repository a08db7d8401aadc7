package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/doctor"
	"github.com/mortise-go/mortise/driver"
)

const doctorLong = `doctor examines Redis, and what lies in it, for what makes locks fail: the connection,
the version, replicas and the cluster, persistence, memory and eviction, limits for
clients, messages, the rights of the user, clocks; and locks without TTL, waiters that
are gone, permits that nobody has, tokens that nobody uses, deadlocks, and clients of
several versions. It takes some seconds.

What is in order takes one line. Of everything else doctor says how bad it is, what to
do, and the command for that. What the user has no right to look at is unknown; the rule
that would allow it is shown.

It changes nothing unless --fix ID names a finding: then it mends that finding, as far as
that certainly harms nobody. The script that does it looks again first.

It looks at 100000 keys, about, and says how many there are; --keys N looks at N, and
--keys -1 at all. While it does so, it pauses for three quarters of the time.

Each finding is explained at ` + docsURL + `doctor.md

Exit codes:
   0  nothing is wrong; some of it may be unknown
   1  the worst is a warning: locks work, and will fail or be slow in some situation
   2  something is critical: locks fail, or can have two holders
  64  wrong usage
  69  Redis cannot be reached, or cannot serve
  77  Redis refused the user or the password`

// docsURL is where the documents are.
const docsURL = "https://github.com/mortise-go/mortise/blob/main/docs/"

const (
	exitWarning  = 1
	exitCritical = 2
)

func doctorCommand(a *app) *cobra.Command {
	var o doctor.Options
	var kinds []string
	cmd := &cobra.Command{
		Use:               "doctor",
		SuggestFor:        []string{"check", "health", "diagnose", "ping"},
		Short:             "Examine Redis for what makes locks fail",
		Long:              doctorLong,
		Example:           "  mortise doctor\n  mortise --prefix app: doctor --kind fair,rw --json | jq .worst\n  mortise doctor --fix fair-queue-dead",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Kinds, err = lockKinds(kinds, cmd.Flags().Changed("kind")); err != nil {
				return err
			}
			if err = knownFindings(o.Accept); err != nil {
				return err
			}
			if cmd.Flags().Changed("keys") && (o.Keys == 0 || o.Keys < -1) {
				return usageError("All keys: --keys -1", "--keys is %d", o.Keys)
			}
			return a.doctor(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVar(&o.Keys, "keys", 0, "look at `N` keys, about, in place of 100000; -1 looks at all")
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "these `KINDS` must work, as fair,rw, or look: a right that they lack is critical")
	cmd.Flags().StringSliceVar(&o.Accept, "accept", nil, "the findings with these `IDS` do not count for the exit code")
	cmd.Flags().StringSliceVar(&o.Fix, "fix", nil, "mend the findings with these `IDS`: "+strings.Join(doctor.Fixable(), ", "))
	a.jsonFlag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("accept", cobra.FixedCompletions(doctor.IDs(), cobra.ShellCompDirectiveNoFileComp))  // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("fix", cobra.FixedCompletions(doctor.Fixable(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (a *app) doctor(ctx context.Context, o doctor.Options) error {
	o.Prefix, o.Mortise = a.keyPrefix(), a.again()
	o.RedisCLI, o.AdminCLI = redisCLI(a.url(), ""), redisCLI(a.url(), "ADMIN")
	o.Passed, o.Plain = passed(a.url())
	u := parsedURL(a.url())
	if _, has := u.User.Password(); has { // a user alone may be a password in the wrong place
		o.User = u.User.Username()
	}
	d, err := a.open(ctx)
	if err != nil {
		var phase *connect.PhaseError
		if errors.As(err, &phase) {
			if failed := a.showReport(doctor.Refused(string(phase.Phase), strings.Join(phase.Hosts, ", "), phase.Err)); failed != nil {
				return failed
			}
		}
		return err
	}
	defer func() { _ = d.Close() }() // nothing is lost
	var end func()
	o.Sentinels, o.Master, end = a.sentinels(ctx)
	defer end()
	r, err := doctor.Examine(ctx, d, &o)
	if err != nil {
		return err
	}
	if err := a.showReport(r); err != nil {
		return err
	}
	switch {
	case r.Err != nil && driver.ClassOf(r.Err) != driver.Other:
		return connectError(r.Err)
	case r.Worst == doctor.Critical:
		return childStatus{code: exitCritical} // silently
	case r.Worst == doctor.Warning:
		return childStatus{code: exitWarning}
	}
	return nil
}

func (a *app) showReport(r *doctor.Report) error {
	if a.json {
		return writeJSON(a.stdout, r)
	}
	writeReport(a.stdout, r)
	if hasPassword(a.redis) && a.passwordFile == "" && slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return strings.Contains(f.Command, "mortise ") }) {
		fmt.Fprintln(a.stdout, "The commands of mortise are without the password: $"+envPassword+" has to have it.")
	}
	return nil
}

// passed returns the phases that connecting to a URL has, and whether what is sent can be read on the way.
func passed(rawURL string) (phases []string, plain bool) {
	u := parsedURL(rawURL)
	if u.Scheme == "" || u.Scheme == "mem" {
		return nil, false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	if host != "" && ip == nil {
		phases = append(phases, string(connect.PhaseResolve))
	}
	phases = append(phases, string(connect.PhaseConnect))
	encrypted := strings.HasPrefix(u.Scheme, "rediss") || strings.HasPrefix(u.Scheme, "valkeys")
	if encrypted {
		phases = append(phases, string(connect.PhaseTLS))
	}
	if u.User != nil {
		phases = append(phases, string(connect.PhaseAuth))
	}
	local := host == "localhost" || ip.IsLoopback() || u.Scheme == "unix"
	return phases, !encrypted && !local
}

// parsedURL parses a URL with the first of its hosts: package url does not read several.
func parsedURL(text string) *url.URL {
	scheme, user, rest := userPart(text)
	hosts, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		hosts, path = rest[:i], rest[i:]
	}
	first, _, _ := strings.Cut(hosts, ",")
	if strings.Contains(text, "@") {
		first = user + "@" + first
	}
	u, err := url.Parse(strings.ToLower(scheme) + "://" + first + path)
	if err != nil {
		return &url.URL{}
	}
	return u
}

// redisCLI returns how a command line begins that runs redis-cli for a server of that URL, as the user of the URL or as another
// one. It has no password: redis-cli asks for it.
func redisCLI(rawURL, user string) func(server string) string {
	u := parsedURL(rawURL)
	flags := tlsFlags(u)
	_, has := u.User.Password()
	if has && user == "" { // a user alone may be a password in the wrong place
		user = u.User.Username()
	}
	if user != "" {
		flags = append(flags, "--user", user)
	}
	if has || user != "" {
		flags = append(flags, "--askpass")
	}
	own := ""
	if u.Hostname() != "" && !strings.Contains(u.Scheme, "sentinel") {
		own = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))
	}
	return func(server string) string {
		words := []string{"redis-cli"}
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = own
		}
		if host, port, err := net.SplitHostPort(server); err == nil {
			words = append(words, "-h", host, "-p", port)
		} else if u.Scheme == "unix" {
			words = append(words, "-s", u.Path)
		}
		return shellQuoteAll(append(words, flags...))
	}
}

// tlsFlags returns the flags of redis-cli for what a URL says of TLS.
func tlsFlags(u *url.URL) (flags []string) {
	if !strings.HasPrefix(u.Scheme, "rediss") && !strings.HasPrefix(u.Scheme, "valkeys") {
		return nil
	}
	flags = append(flags, "--tls")
	for _, option := range [][2]string{{"tls_ca", "--cacert"}, {"tls_cert", "--cert"}, {"tls_key", "--key"}, {"tls_server_name", "--sni"}} {
		if value := u.Query().Get(option[0]); value != "" {
			flags = append(flags, option[1], value)
		}
	}
	if u.Query().Get("tls_insecure") == "true" {
		flags = append(flags, "--insecure")
	}
	return flags
}

// knownFindings returns an error if an id of --accept is none of a finding.
func knownFindings(accepted []string) error {
	for _, id := range accepted {
		if !slices.Contains(doctor.IDs(), id) {
			return usageError(didYouMean(alike(id, doctor.IDs()), "The ids are "+strings.Join(doctor.IDs(), ", ")+"."), "--accept: no finding is called %q", id)
		}
	}
	return nil
}

// lockKinds returns the kinds that words name; there must be one if any are needed.
func lockKinds(words []string, needed bool) (kinds []doctor.Kind, err error) {
	if needed && len(words) == 0 {
		words = []string{""}
	}
	for _, w := range words {
		found := kindsNamed(strings.ToLower(strings.TrimSpace(w)))
		if found == nil {
			return nil, usageError("The kinds are "+strings.Join(kindNames(), ", ")+", and all.", "%s is no kind of lock", fmt.Sprintf("%q", w))
		}
		kinds = append(kinds, found...)
	}
	return kinds, nil
}

// otherNames are names of kinds that have the rights of another.
var otherNames = map[string]doctor.Kind{
	"spin": doctor.KindLock, "multi": doctor.KindLock, "redlock": doctor.KindLock, "latch": doctor.KindSemaphore, "double": doctor.KindBarrier,
	"fairlock": doctor.KindFair, "fencedlock": doctor.KindFenced, "rwlock": doctor.KindRW, "grouplock": doctor.KindGroup, "permitsemaphore": doctor.KindPermits,
}

func kindsNamed(name string) (kinds []doctor.Kind) {
	if kind, ok := otherNames[name]; ok {
		return []doctor.Kind{kind}
	}
	for _, kind := range doctor.Kinds() {
		if name == string(kind) || name == "all" && kind != doctor.KindLook && (!kind.OnTop() || kind == doctor.KindRecords || kind == doctor.KindInspect) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func kindNames() (names []string) {
	for _, kind := range doctor.Kinds() {
		names = append(names, string(kind))
	}
	return names
}
