package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// fieldManager is the name under which pvc-pruner writes.
const fieldManager = "pvc-pruner"

// InjectCABundle makes the API server trust ca (PEM), and nobody else, in every webhook of
// the mutating and of the validating webhook configuration with this name. It writes only
// what differs.
func InjectCABundle(ctx context.Context, client kubernetes.Interface, name string, ca []byte) error {
	_, err := injectAll(ctx, client, name, func([]byte) []byte { return ca })
	return err
}

// AddToCABundle makes the API server trust ca (PEM) besides whom it trusts already: while a
// certificate authority is replaced, some replicas still serve what the old one signed. It
// says whether anything had to be written.
func AddToCABundle(ctx context.Context, client kubernetes.Interface, name string, ca []byte) (changed bool, err error) {
	now := time.Now()
	return injectAll(ctx, client, name, func(stored []byte) []byte { return merge(stored, ca, now) })
}

// injectAll replaces the bundle of each webhook by what next makes of it.
func injectAll(ctx context.Context, client kubernetes.Interface, name string, next func(stored []byte) []byte) (changed bool, err error) {
	hooks := client.AdmissionregistrationV1()
	mutating, err := inject(ctx, name, next, hooks.MutatingWebhookConfigurations(), func(c *admissionregistrationv1.MutatingWebhookConfiguration) (all []*admissionregistrationv1.WebhookClientConfig) {
		for i := range c.Webhooks {
			all = append(all, &c.Webhooks[i].ClientConfig)
		}
		return all
	})
	if err != nil {
		return false, fmt.Errorf("write CA into MutatingWebhookConfiguration %s, which the chart installs: %w", name, err)
	}
	validating, err := inject(ctx, name, next, hooks.ValidatingWebhookConfigurations(), func(c *admissionregistrationv1.ValidatingWebhookConfiguration) (all []*admissionregistrationv1.WebhookClientConfig) {
		for i := range c.Webhooks {
			all = append(all, &c.Webhooks[i].ClientConfig)
		}
		return all
	})
	if err != nil {
		return false, fmt.Errorf("write CA into ValidatingWebhookConfiguration %s, which the chart installs: %w", name, err)
	}
	return mutating || validating, nil
}

// mostTrusted is how many certificate authorities a bundle holds at most: the new one, the
// one before, and one more for a replacement that overtook another.
const mostTrusted = 3

// merge puts ca in front of the stored bundle, without what has expired, is no certificate,
// or is there twice.
func merge(stored, ca []byte, now time.Time) []byte {
	out := append(bytes.TrimSpace(ca), '\n')
	kept := 1
	for block, rest := pem.Decode(stored); block != nil && kept < mostTrusted; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})
		if err != nil || now.After(cert.NotAfter) || bytes.Contains(out, text) {
			continue
		}
		out = append(out, text...)
		kept++
	}
	return out
}

// store reads and writes webhook configurations of one kind.
type store[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
}

// inject writes the next bundle into every webhook of a configuration, and only what differs.
func inject[T any](ctx context.Context, name string, next func([]byte) []byte, stored store[T], configs func(T) []*admissionregistrationv1.WebhookClientConfig) (changed bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := stored.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		changed = false
		for _, config := range configs(object) {
			changed = setBundle(config, next(config.CABundle)) || changed
		}
		if changed {
			_, err = stored.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		return err
	})
	return changed, err
}

// setBundle says whether it changed anything.
func setBundle(config *admissionregistrationv1.WebhookClientConfig, ca []byte) bool {
	if bytes.Equal(config.CABundle, ca) {
		return false
	}
	config.CABundle = ca
	return true
}
