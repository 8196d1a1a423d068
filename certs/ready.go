package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// checkDeadline bounds one look, so that a probe gets its answer within the second
// that a kubelet waits by default.
const checkDeadline = 900 * time.Millisecond

// Ready returns a check that passes while the server at address (host:port, our own)
// serves a certificate that the API server accepts in every webhook of the mutating and
// the validating webhook configuration with this name.
func Ready(client kubernetes.Interface, configuration, address string) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), checkDeadline)
		defer cancel()
		served, err := served(ctx, address)
		if err != nil {
			return err
		}
		hooks, err := webhooks(ctx, client, configuration)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(hooks)) { // the same fault is told in the same words
			if err := accepts(hooks[name], served); err != nil {
				return fmt.Errorf("webhook %s: the API server will not accept the certificate that is served: %w", name, err)
			}
		}
		return nil
	}
}

// served returns the chain of certificates that the server presents.
func served(ctx context.Context, address string) ([]*x509.Certificate, error) {
	dialer := tls.Dialer{Config: &tls.Config{
		// Nothing is sent: the chain is looked at, and verified as the API server will.
		InsecureSkipVerify: true, //nolint:gosec // see above
		MinVersion:         tls.VersionTLS12,
	}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to our own webhook server: %w", err)
	}
	chain := connection.(*tls.Conn).ConnectionState().PeerCertificates // tls.Dialer documents the type
	if err := connection.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return nil, fmt.Errorf("close the connection to our own webhook server: %w", err)
	}
	if len(chain) == 0 {
		return nil, errors.New("our own webhook server presents no certificate")
	}
	return chain, nil
}

// webhooks returns what the API server knows of each of our webhooks, by name.
func webhooks(ctx context.Context, client kubernetes.Interface, name string) (map[string]admissionregistrationv1.WebhookClientConfig, error) {
	mutating, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get MutatingWebhookConfiguration: %w", err)
	}
	validating, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get ValidatingWebhookConfiguration: %w", err)
	}
	configs := map[string]admissionregistrationv1.WebhookClientConfig{}
	for i := range mutating.Webhooks {
		configs[mutating.Webhooks[i].Name] = mutating.Webhooks[i].ClientConfig
	}
	for i := range validating.Webhooks {
		configs[validating.Webhooks[i].Name] = validating.Webhooks[i].ClientConfig
	}
	if len(mutating.Webhooks) == 0 || len(validating.Webhooks) == 0 {
		return nil, fmt.Errorf("the webhook configurations %s are empty: no admission request will reach us", name)
	}
	return configs, nil
}

// accepts verifies the chain as the API server does: for the host name that it calls,
// and with the stored bundle, or with the roots of its machine where there is none.
func accepts(config admissionregistrationv1.WebhookClientConfig, chain []*x509.Certificate) error {
	host, err := calledHost(config)
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{DNSName: host, Intermediates: x509.NewCertPool()}
	for _, intermediate := range chain[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	if len(config.CABundle) > 0 {
		options.Roots = x509.NewCertPool()
		if !options.Roots.AppendCertsFromPEM(config.CABundle) {
			return errors.New("the stored caBundle holds no certificate")
		}
	}
	_, err = chain[0].Verify(options)
	return err
}

// calledHost is the name that the API server expects in the certificate
// (k8s.io/apiserver/pkg/util/webhook/client.go).
func calledHost(config admissionregistrationv1.WebhookClientConfig) (string, error) {
	if s := config.Service; s != nil {
		return s.Name + "." + s.Namespace + ".svc", nil
	}
	if config.URL == nil {
		return "", errors.New("the webhook has neither a URL nor a service")
	}
	parsed, err := url.Parse(*config.URL)
	if err != nil {
		return "", fmt.Errorf("parse the webhook's URL: %w", err)
	}
	return parsed.Hostname(), nil
}
