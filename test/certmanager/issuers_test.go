package certmanager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/test/certmanager"
)

// userIssuer signs with a ClusterIssuer, as a company has one.
func userIssuer(t *testing.T, w *world) {
	const company = "company"
	makeIssuer(t, w, "self-signed", certmanagerv1.IssuerConfig{SelfSigned: &certmanagerv1.SelfSignedIssuer{}})
	_, err := w.certificates.CertmanagerV1().Certificates(certmanager.ClusterNamespace).Create(t.Context(), &certmanagerv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Name: company},
		Spec: certmanagerv1.CertificateSpec{
			IsCA: true, CommonName: company, SecretName: company,
			IssuerRef: cmmeta.IssuerReference{Kind: certmanagerv1.ClusterIssuerKind, Name: "self-signed"},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	makeIssuer(t, w, company, certmanagerv1.IssuerConfig{CA: &certmanagerv1.CAIssuer{SecretName: company}})

	r := install(t, w, "certs.issuerRef.kind=ClusterIssuer", "certs.issuerRef.name="+company)
	authority, err := w.client.CoreV1().Secrets(certmanager.ClusterNamespace).Get(t.Context(), company, metav1.GetOptions{})
	must(t, err)
	if bundle, err := r.bundle(t.Context()); err != nil || !bytes.Equal(bundle, authority.Data["tls.crt"]) {
		t.Errorf("the CA bundle is not the user's authority: %v", err)
	}
	all, err := w.certificates.CertmanagerV1().Issuers(name).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(all.Items) > 0 {
		t.Errorf("the chart brought an issuer of its own: %s", all.Items[0].Name)
	}
	r.run(t) // and wait until it answers
}

// selfSigned shows what the chart's own authority is for: what a self-signed issuer renews is its own authority, so
// that the CA bundle verifies nothing that is served until the last pod has the new files.
func selfSigned(t *testing.T, w *world) {
	makeIssuer(t, w, "self-signed", certmanagerv1.IssuerConfig{SelfSigned: &certmanagerv1.SelfSignedIssuer{}})
	r := install(t, w, "certs.issuerRef.kind=ClusterIssuer", "certs.issuerRef.name=self-signed")
	r.run(t)
	load := startLoad(t, r)
	load.more(t)
	load.none(t)

	before, err := r.bundle(t.Context())
	must(t, err)
	r.renew(t, name, served)
	r.await(t, "the renewed certificate is injected", func(ctx context.Context) error {
		bundle, err := r.bundle(ctx)
		if err == nil && bytes.Equal(bundle, before) {
			err = errors.New("the CA bundle is the old one")
		}
		return err
	})
	load.more(t)
	failed, first := load.failed()
	if failed == 0 {
		t.Error("no request failed: either the load sees nothing, or the chart's own authority is not needed")
	}
	t.Logf("as it must be: %v", first)
	r.kubelet.sync(t)
	r.awaitServed(t)
	r.awaitProgram(t, "admission requests reach it again", r.admits)
}

// makeIssuer makes a ClusterIssuer unless it is there, and waits until it is ready.
func makeIssuer(t *testing.T, w *world, issuer string, config certmanagerv1.IssuerConfig) {
	t.Helper()
	all := w.certificates.CertmanagerV1().ClusterIssuers()
	if _, err := all.Get(t.Context(), issuer, metav1.GetOptions{}); err != nil {
		_, err = all.Create(t.Context(), &certmanagerv1.ClusterIssuer{
			ObjectMeta: metav1.ObjectMeta{Name: issuer}, Spec: certmanagerv1.IssuerSpec{IssuerConfig: config},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	w.await(t, "ClusterIssuer "+issuer+" is ready", func(ctx context.Context) error {
		i, err := all.Get(ctx, issuer, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range i.Status.Conditions {
			if condition.Type == certmanagerv1.IssuerConditionReady && condition.Status == cmmeta.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%+v", i.Status.Conditions)
	})
}
