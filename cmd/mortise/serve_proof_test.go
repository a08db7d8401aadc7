//go:build proof

package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// The demonstration shows its fleet, to its own names only, and ends with its streams.
func TestServeDemo(t *testing.T) {
	t.Parallel()
	s, url := startServe(t, "", "--demo")
	client := &http.Client{}
	defer client.CloseIdleConnections()
	redistest.Eventually(t, "the fleet is there", func() error {
		if code, body := fetched(t, client, request(t, url)); code != http.StatusOK || !strings.Contains(body, "mail-") {
			return fmt.Errorf("%d: %s", code, body)
		}
		return nil
	})
	r := request(t, url)
	r.Host = "evil.example.org"
	if code, body := fetched(t, client, r); code != http.StatusMisdirectedRequest || strings.Contains(body, "mail-") {
		t.Errorf("a request for another host is answered with %d", code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	stream := request(t, url).WithContext(ctx)
	stream.Header.Set("Accept", "text/event-stream")
	response, err := client.Do(stream)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGTERM)
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	s.wantStatus(t, 0)
	s.await(t, "mortise: the dashboard has ended (ended by a signal: terminated)\n")
}

// Only users of the file see pages, over TLS, and what they release is written down.
func TestServeUsers(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t, "--requirepass", "redis-secret")
	dir := t.TempDir()
	users := filepath.Join(dir, "users")
	if err := os.WriteFile(users, []byte("# who may look\nada:0123456789abcdef\r\nbob:fedcba9876543210\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key, roots := certificate(t, dir)
	s := prepare(redis.Addr(), exec.Command("mortise", "serve", "--listen", "127.0.0.1:0", "--auth-file", users, "--tls-cert", cert, "--tls-key", key, "--release", "--title", "staging"))
	s.cmd.Env = append(s.cmd.Env, "REDISCLI_AUTH=redis-secret")
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.launch(t)
	s.await(t, "Ctrl-C ends it")
	url := regexp.MustCompile(`https://\S+/`).FindString(s.out.text())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	wantUsersOnly(t, client, url)
	owner := "8f1c2b3a-0000-4000-8000-000000000001:77"
	redis.Must(t, "HSET", "deploy", owner, "1")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"release?lock=deploy&owner="+owner, strings.NewReader("do=release"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("ada", "0123456789abcdef")
	if code, body := fetched(t, client, r); code != http.StatusOK || !strings.Contains(body, "released by force") {
		t.Errorf("a release is answered with %d: %s", code, body)
	}
	s.await(t, "user=ada")
	if got := s.out.text(); !strings.Contains(got, "released by force") || strings.Contains(got, "secret") || strings.Contains(got, "0123456789abcdef") {
		t.Errorf("it writes %q", got)
	}
	s.signal(t, syscall.SIGINT)
	s.wantStatus(t, 0)
}

// wantUsersOnly checks that each page is for users only, and shows no password.
func wantUsersOnly(t *testing.T, client *http.Client, url string) {
	t.Helper()
	for user, want := range map[string]int{"": 401, "ada:0123456789abcdef": 200, "bob:fedcba9876543210": 200, "ada:fedcba9876543210": 401, "ada:": 401, "0123456789abcdef:ada": 401} {
		for _, page := range []string{"", "health", "events", "release", "assets/x", "no/such/page"} {
			r := request(t, url+page)
			if name, password, ok := strings.Cut(user, ":"); ok {
				r.SetBasicAuth(name, password)
			}
			code, body := fetched(t, client, r)
			if (code == 401) != (want == 401) || page == "" && (code != want || want == 200 && !strings.Contains(body, "staging")) {
				t.Errorf("%q gets %d for %q, want %d", user, code, page, want)
			}
			if strings.Contains(body, "secret") || strings.Contains(body, "0123456789abcdef") {
				t.Errorf("%q shows a password: %s", page, body)
			}
		}
	}
}

// certificate makes one for the loopback address.
func certificate(t *testing.T, dir string) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, made, made, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert, key, roots
}
