package certmanager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
)

// renew makes cert-manager renew a Certificate now, as `cmctl renew` does, and returns when the Secret holds the new
// one.
func (r *release) renew(t *testing.T, certificate, secret string) {
	t.Helper()
	before, _, err := r.secret(t.Context(), secret)
	must(t, err)
	must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c, err := r.certificates.CertmanagerV1().Certificates(name).Get(t.Context(), certificate, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.Status.Conditions = append(c.Status.Conditions, certmanagerv1.CertificateCondition{
			Type: certmanagerv1.CertificateConditionIssuing, Status: cmmeta.ConditionTrue, Reason: "ManuallyTriggered",
			Message: "Asked for by a test", ObservedGeneration: c.Generation,
		})
		_, err = r.certificates.CertmanagerV1().Certificates(name).UpdateStatus(t.Context(), c, metav1.UpdateOptions{})
		return err
	}))
	r.awaitRenewed(t, certificate, secret, before.SerialNumber.String())
}

// recreate deletes a Certificate's Secret, and returns when cert-manager has made another one.
func (r *release) recreate(t *testing.T, certificate, secret string) {
	t.Helper()
	before, _, err := r.secret(t.Context(), secret)
	must(t, err)
	must(t, r.client.CoreV1().Secrets(name).Delete(t.Context(), secret, metav1.DeleteOptions{}))
	r.awaitRenewed(t, certificate, secret, before.SerialNumber.String())
}

func (r *release) awaitRenewed(t *testing.T, certificate, secret, serial string) {
	t.Helper()
	r.await(t, secret+" holds another certificate", func(ctx context.Context) error {
		after, _, err := r.secret(ctx, secret)
		if err != nil {
			return err
		}
		if after.SerialNumber.String() == serial {
			return errors.New("it is the old one")
		}
		c, err := r.certificates.CertmanagerV1().Certificates(name).Get(ctx, certificate, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range c.Status.Conditions {
			if condition.Type == certmanagerv1.CertificateConditionIssuing {
				return fmt.Errorf("cert-manager is still at it: %s", condition.Message)
			}
		}
		return r.ready(ctx, certificate)
	})
}

// awaitUpgrade reads on until the upgrade is seen, and fails at a version with another CA bundle.
func awaitUpgrade(t *testing.T, watcher watch.Interface, bundle []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			t.Fatal("the upgrade was not seen")
		case event, open := <-watcher.ResultChan():
			config, isConfig := event.Object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
			if !open || !isConfig {
				t.Fatalf("the watch ended: %v", event)
			}
			for i := range config.Webhooks {
				if !bytes.Equal(config.Webhooks[i].ClientConfig.CABundle, bundle) {
					t.Fatalf("%s has another CA bundle while the release is upgraded", config.Webhooks[i].Name)
				}
			}
			if *config.Webhooks[0].TimeoutSeconds == 4 {
				return
			}
		}
	}
}
