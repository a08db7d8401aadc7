//go:build server

package connect

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// authority signs certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.file, _, a.cert, a.key = a.sign(t, "ca", template)
	return a
}

// sign writes a certificate and its key to files.
func (a *authority) sign(t *testing.T, name string, template *x509.Certificate) (certFile, keyFile string, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, cert, key
}

// leaf signs a certificate for the loopback address and a host name.
func (a *authority) leaf(t *testing.T, name string, until time.Time) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile, _, _ = a.sign(t, name, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		DNSNames: []string{"redis.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return certFile, keyFile
}

// tlsServer starts a server with a second port, for TLS, and returns that.
func tlsServer(t *testing.T, a *authority, certFile, keyFile string, args ...string) string {
	t.Helper()
	port := redistest.FreePort(t)
	redistest.Single(t, append([]string{"--tls-port", strconv.Itoa(port), "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-ca-cert-file", a.file}, args...)...)
	return "127.0.0.1:" + strconv.Itoa(port)
}

func TestOpenTLS(t *testing.T) { canary.Judge(t, opensTLS) }

func opensTLS(t *testing.T, b *canary.Bounds) {
	a := newAuthority(t)
	good, goodKey := a.leaf(t, "good", time.Now().Add(time.Hour))
	old, oldKey := a.leaf(t, "old", time.Now().Add(-time.Hour))
	stranger := newAuthority(t)
	ca := "tls_ca=" + url.QueryEscape(a.file)
	client := "&tls_cert=" + url.QueryEscape(good) + "&tls_key=" + url.QueryEscape(goodKey)

	plain := tlsServer(t, a, good, goodKey, "--tls-auth-clients", "no")
	open(t, "rediss://"+plain+"?"+ca)
	open(t, "valkeys://"+plain+"?tls_insecure=true")
	open(t, "rediss://"+plain+"?"+ca+"&tls_server_name=redis.example")
	refusedSoon(t, b, "rediss://:s3cret@"+plain, driver.NotSent, "certificate")
	refusedSoon(t, b, "rediss://:s3cret@"+plain+"?tls_ca="+url.QueryEscape(stranger.file), driver.NotSent, "certificate")
	refusedSoon(t, b, "rediss://:s3cret@"+plain+"?"+ca+"&tls_server_name=other.example", driver.NotSent, "other.example")
	refusedSoon(t, b, "rediss://:s3cret@"+plain+"?tls_ca="+url.QueryEscape(goodKey), driver.Other, "no certificate")

	expired := tlsServer(t, a, old, oldKey, "--tls-auth-clients", "no")
	refusedSoon(t, b, "rediss://:s3cret@"+expired+"?"+ca, driver.NotSent, "expired")

	mutual := tlsServer(t, a, good, goodKey)
	open(t, "rediss://"+mutual+"?"+ca+client)
	refusedSoon(t, b, "rediss://:s3cret@"+mutual+"?"+ca, driver.NotSent, mutual)

	ancient := tlsServer(t, a, good, goodKey, "--tls-auth-clients", "no", "--tls-protocols", "TLSv1.1")
	refusedSoon(t, b, "rediss://:s3cret@"+ancient+"?"+ca, driver.NotSent, "")
}
