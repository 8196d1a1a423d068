package certs

import (
	"bytes"
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// fieldManager is the name under which pvc-pruner writes.
const fieldManager = "pvc-pruner"

// InjectCABundle makes the API server trust ca (PEM) in every webhook of the mutating and
// of the validating webhook configuration with this name. It writes only what differs.
func InjectCABundle(ctx context.Context, client kubernetes.Interface, name string, ca []byte) error {
	hooks := client.AdmissionregistrationV1()
	err := inject(ctx, name, ca, hooks.MutatingWebhookConfigurations(), func(c *admissionregistrationv1.MutatingWebhookConfiguration) (all []*admissionregistrationv1.WebhookClientConfig) {
		for i := range c.Webhooks {
			all = append(all, &c.Webhooks[i].ClientConfig)
		}
		return all
	})
	if err != nil {
		return fmt.Errorf("write CA into MutatingWebhookConfiguration %s, which the chart installs: %w", name, err)
	}
	err = inject(ctx, name, ca, hooks.ValidatingWebhookConfigurations(), func(c *admissionregistrationv1.ValidatingWebhookConfiguration) (all []*admissionregistrationv1.WebhookClientConfig) {
		for i := range c.Webhooks {
			all = append(all, &c.Webhooks[i].ClientConfig)
		}
		return all
	})
	if err != nil {
		return fmt.Errorf("write CA into ValidatingWebhookConfiguration %s, which the chart installs: %w", name, err)
	}
	return nil
}

// store reads and writes webhook configurations of one kind.
type store[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error)
}

// inject writes ca into every webhook of a configuration, and only what differs.
func inject[T any](ctx context.Context, name string, ca []byte, stored store[T], configs func(T) []*admissionregistrationv1.WebhookClientConfig) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := stored.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		changed := false
		for _, config := range configs(object) {
			changed = setBundle(config, ca) || changed
		}
		if changed {
			_, err = stored.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		return err
	})
}

// setBundle says whether it changed anything.
func setBundle(config *admissionregistrationv1.WebhookClientConfig, ca []byte) bool {
	if bytes.Equal(config.CABundle, ca) {
		return false
	}
	config.CABundle = ca
	return true
}
