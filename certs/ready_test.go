package certs

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// serve serves the pair of a folder on loopback and returns the address.
func serve(t *testing.T, dir string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func byURL(url string, ca []byte) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
}

func byService(name, namespace string, ca []byte) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Name: name, Namespace: namespace}, CABundle: ca,
	}
}

func TestReadyMeansThatTheAPIServerAcceptsWhatIsServed(t *testing.T) {
	dir, ca := made(t)
	address := serve(t, dir)
	_, otherCA := made(t)
	for name, test := range map[string]struct {
		mutating, validating admissionregistrationv1.WebhookClientConfig
		want                 string // part of the error; "" means ready
	}{
		"called by address and by service":         {byURL("https://127.0.0.1:1/x", ca), byService("webhook", "example", ca), ""},
		"several authorities in the bundle":        {byURL("https://localhost", slices.Concat(otherCA, ca)), byURL("https://localhost", ca), ""},
		"another authority":                        {byURL("https://localhost", ca), byURL("https://localhost", otherCA), "webhook v.example.com"},
		"another host":                             {byURL("https://elsewhere", ca), byURL("https://localhost", ca), "webhook m.example.com"},
		"another service":                          {byService("webhook", "other", ca), byURL("https://localhost", ca), "webhook.other.svc"},
		"no bundle, and roots that do not know us": {byURL("https://localhost", nil), byURL("https://localhost", ca), "webhook m.example.com"},
		"a bundle of garbage":                      {byURL("https://localhost", []byte("x")), byURL("https://localhost", ca), "holds no certificate"},
		"neither a URL nor a service":              {admissionregistrationv1.WebhookClientConfig{}, byURL("https://localhost", ca), "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(mutatingConfig(test.mutating), validatingConfig(test.validating))
			check(t, Ready(client, "hooks", address), test.want)
		})
	}
}

func TestNotReadyWithoutServerOrConfiguration(t *testing.T) {
	dir, ca := made(t)
	address := serve(t, dir)
	url := byURL("https://localhost", ca)
	empty := &admissionregistrationv1.MutatingWebhookConfiguration{}
	empty.Name = "hooks"
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once: an address at which nobody listens
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		address string
		objects []runtime.Object
		want    string
	}{
		"nobody listens":                 {free.Addr().String(), []runtime.Object{mutatingConfig(url), validatingConfig(url)}, "connect"},
		"no validating configuration":    {address, []runtime.Object{mutatingConfig(url)}, "get ValidatingWebhookConfiguration"},
		"no mutating configuration":      {address, []runtime.Object{validatingConfig(url)}, "get MutatingWebhookConfiguration"},
		"a configuration without a hook": {address, []runtime.Object{empty, validatingConfig(url)}, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, Ready(fake.NewClientset(test.objects...), "hooks", test.address), test.want)
		})
	}
}

func check(t *testing.T, ready func(*http.Request) error, want string) {
	t.Helper()
	err := ready(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
	switch {
	case want == "" && err != nil:
		t.Errorf("not ready: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one that contains %q", err, want)
	}
}
