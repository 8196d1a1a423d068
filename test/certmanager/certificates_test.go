package certmanager_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCertManager runs its rules one after the other on one control plane.
func TestCertManager(t *testing.T) {
	w := newWorld(t)
	t.Run("helm refuses a cluster without cert-manager before anything is applied", func(t *testing.T) { refused(t, w) })
	// cainjector replaced the CA bundle, and since 1.19 adds to it.
	t.Run("before cert-manager 1.19", func(t *testing.T) {
		w.startCertManager(t, "--feature-gates=CAInjectorMerging=false")
		t.Run("an authority of the chart's own", func(t *testing.T) { ownAuthority(t, w) })
		t.Run("renewals by a self-signed issuer fail requests, and the load sees it", func(t *testing.T) { selfSigned(t, w) })
	})
	t.Run("since cert-manager 1.19", func(t *testing.T) {
		w.startCertManager(t)
		t.Run("an authority of the chart's own", func(t *testing.T) { ownAuthority(t, w) })
		t.Run("an issuer of the user's own", func(t *testing.T) { userIssuer(t, w) })
	})
}

func refused(t *testing.T, w *world) {
	stderr, err := w.helm(t.Context(), "install", name, chartFolder, "--namespace", name, "--create-namespace", "--set", "certs.mode=cert-manager")
	if err == nil {
		t.Fatal("it was installed")
	}
	const want = "certs.mode is cert-manager, and this cluster does not know cert-manager.io/v1: install cert-manager first, or use certs.mode=self-managed"
	if lines := strings.Split(strings.TrimSpace(stderr), "\n"); len(lines) != 1 || !strings.HasSuffix(lines[0], want) {
		t.Errorf("helm says:\n%s\nwant one line that ends with: %s", stderr, want)
	}
	all := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=pvc-pruner"}
	hooks, err := w.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(t.Context(), all)
	must(t, err)
	roles, err := w.client.RbacV1().ClusterRoles().List(t.Context(), all)
	must(t, err)
	// Helm keeps what it installed in Secrets.
	secrets, err := w.client.CoreV1().Secrets(name).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if n := len(hooks.Items) + len(roles.Items) + len(secrets.Items); n > 0 {
		t.Errorf("%d objects were made", n)
	}
}

func ownAuthority(t *testing.T, w *world) {
	r := install(t, w)
	t.Run("is made once, signs the certificate, and is injected", func(t *testing.T) { issued(t, r) })
	t.Run("stays injected when the release is upgraded", func(t *testing.T) { upgraded(t, r) })
	r.run(t)
	t.Run("unused claims of an opted-in set are pruned", func(t *testing.T) { pruned(t, r) })
	load := startLoad(t, r)
	t.Run("a renewed certificate is served without a restart and a failed request", func(t *testing.T) {
		r.replace(t, load, func() { r.renew(t, name, served) })
	})
	t.Run("so is one whose Secret was deleted", func(t *testing.T) {
		r.replace(t, load, func() { r.recreate(t, name, served) })
	})
	t.Run("a renewed authority keeps its key, and fails no request either", func(t *testing.T) { authorityRenewed(t, r, load) })
	t.Run("a lost authority fails no request before the certificate is renewed", func(t *testing.T) { authorityLost(t, r, load) })
}

// issued looks at what the API server will trust, and at what will be served.
func issued(t *testing.T, r *release) {
	for _, issuer := range []string{name, root} {
		r.await(t, "issuer "+issuer+" is ready", func(ctx context.Context) error { return r.issuerReady(ctx, issuer) })
	}
	certificate, secret, err := r.secret(t.Context(), served)
	must(t, err)
	authority, rootSecret, err := r.secret(t.Context(), root)
	must(t, err)
	bundle, err := r.bundle(t.Context())
	must(t, err)
	if !bytes.Equal(bundle, rootSecret.Data["tls.crt"]) || !bytes.Equal(bundle, secret.Data["ca.crt"]) {
		t.Error("the CA bundle is not the authority of the certificate")
	}
	if !authority.IsCA || certificate.IsCA || !slices.Equal(certificate.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("the authority is one: %t; the certificate is one: %t, and for %v", authority.IsCA, certificate.IsCA, certificate.ExtKeyUsage)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, host := range []string{host, host + ".cluster.local"} {
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("the certificate is not valid for %s: %v", host, err)
		}
	}
}

func (r *release) issuerReady(ctx context.Context, issuer string) error {
	i, err := r.certificates.CertmanagerV1().Issuers(name).Get(ctx, issuer, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range i.Status.Conditions {
		if condition.Type == certmanagerv1.IssuerConditionReady && condition.Status == cmmeta.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("%+v", i.Status.Conditions)
}

// upgraded would see the moment in which an upgrade takes the CA bundle away, if it did: cainjector, which puts it back,
// leaves managed fields that tell.
func upgraded(t *testing.T, r *release) {
	before, err := r.bundle(t.Context())
	must(t, err)
	watcher, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Watch(t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: name}))
	must(t, err)
	defer watcher.Stop()
	if _, err := r.helm(t.Context(), "upgrade", name, chartFolder, "--namespace", name, "--reuse-values", "--set", "webhook.timeoutSeconds=4"); err != nil {
		t.Fatal(err)
	}
	awaitUpgrade(t, watcher, before)
}

// replace lets how replace the Secret's certificate, while the files are the old ones, and then the files.
func (r *release) replace(t *testing.T, l *load, how func()) {
	t.Helper()
	bundle, err := r.bundle(t.Context())
	must(t, err)
	how()
	_, secret, err := r.secret(t.Context(), served)
	must(t, err)
	if !bytes.Equal(secret.Data["ca.crt"], bundle) {
		t.Error("the new certificate is signed by another authority")
	}
	l.more(t)
	r.kubelet.sync(t)
	r.awaitServed(t)
	l.more(t)
	l.none(t)
}

// awaitServed waits until what is served is what the Secret holds.
func (r *release) awaitServed(t *testing.T) {
	t.Helper()
	r.awaitProgram(t, "the new certificate is served", func(ctx context.Context) error {
		wanted, _, err := r.secret(ctx, served)
		if err != nil {
			return err
		}
		peer, err := r.peer(ctx)
		if err != nil {
			return err
		}
		if !peer.Equal(wanted) {
			return fmt.Errorf("serial number %v is served, want %v", peer.SerialNumber, wanted.SerialNumber)
		}
		return nil
	})
}

// authorityLost deletes the authority with its key: what is served and the CA bundle are still of the old one.
func authorityLost(t *testing.T, r *release, l *load) {
	r.recreate(t, root, root)
	r.await(t, "the issuer has the new authority", func(ctx context.Context) error { return r.issuerReady(ctx, name) })
	l.more(t)
	l.none(t)
}

func authorityRenewed(t *testing.T, r *release, l *load) {
	before, _, err := r.secret(t.Context(), root)
	must(t, err)
	r.renew(t, root, root)
	after, rootSecret, err := r.secret(t.Context(), root)
	must(t, err)
	if !before.PublicKey.(*ecdsa.PublicKey).Equal(after.PublicKey) { // as the chart asks for
		t.Error("the authority has another key: what it signed is not verified any more")
	}
	l.more(t) // nobody has learnt of it

	r.renew(t, name, served)
	r.await(t, "the renewed authority is injected", func(ctx context.Context) error {
		bundle, err := r.bundle(ctx)
		if err == nil && !bytes.Contains(bundle, bytes.TrimSpace(rootSecret.Data["tls.crt"])) {
			err = errors.New("the CA bundle is another one")
		}
		return err
	})
	l.more(t) // what the old one signed is still served
	r.kubelet.sync(t)
	r.awaitServed(t)
	l.more(t)
	l.none(t)
}
