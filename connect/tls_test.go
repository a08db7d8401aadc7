package connect

import (
	"crypto/tls"
	"strings"
	"testing"
)

func TestTLSDefaults(t *testing.T) {
	if config, err := tlsConfig(&address{tls: true}); err != nil || config.MinVersion < tls.VersionTLS12 || config.InsecureSkipVerify {
		t.Errorf("default TLS configuration: %+v, %v", config, err)
	}
	if strings.Contains(forms, "insecure") {
		t.Error("no form shown to users may switch verification off")
	}
}
