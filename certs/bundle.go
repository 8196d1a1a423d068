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
	mutating := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored, err := mutating.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		changed := false
		for i := range stored.Webhooks {
			changed = setBundle(&stored.Webhooks[i].ClientConfig, ca) || changed
		}
		if changed {
			_, err = mutating.Update(ctx, stored, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write CA into MutatingWebhookConfiguration %s, which the chart installs: %w", name, err)
	}
	validating := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored, err := validating.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		changed := false
		for i := range stored.Webhooks {
			changed = setBundle(&stored.Webhooks[i].ClientConfig, ca) || changed
		}
		if changed {
			_, err = validating.Update(ctx, stored, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write CA into ValidatingWebhookConfiguration %s, which the chart installs: %w", name, err)
	}
	return nil
}

// setBundle says whether it changed anything.
func setBundle(config *admissionregistrationv1.WebhookClientConfig, ca []byte) bool {
	if bytes.Equal(config.CABundle, ca) {
		return false
	}
	config.CABundle = ca
	return true
}
