package certmanager_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pvc-pruner/pvc-pruner/test/certmanager"
	"github.com/pvc-pruner/pvc-pruner/test/sets"
)

const (
	chartFolder = "../../charts/pvc-pruner"
	// name is that of the release, of its namespace and of most of its objects.
	name = "pvc-pruner"
	// host is what the API server expects in the certificate.
	host = "pvc-pruner.pvc-pruner.svc"
	// served and root are the Secrets of the chart.
	served = "pvc-pruner-tls"
	root   = "pvc-pruner-root"
)

// release is the chart, installed with certs.mode=cert-manager, and the program that runs beside the cluster.
type release struct {
	*world
	kubelet *kubelet
	process *certmanager.Process
	address string // of the program's webhooks
}

// install installs the chart with helm, as users do, and waits until the certificate is issued and injected.
func install(t *testing.T, w *world, values ...string) *release {
	t.Helper()
	args := []string{"install", name, chartFolder, "--namespace", name, "--create-namespace", "--set", "certs.mode=cert-manager"}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	if _, err := w.helm(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	r := &release{world: w}
	t.Cleanup(func() { r.uninstall(t) })
	w.await(t, "the certificate is ready", func(ctx context.Context) error { return r.ready(ctx, name) })
	w.await(t, "both webhook configurations have the CA bundle", func(ctx context.Context) error {
		_, err := r.bundle(ctx)
		return err
	})
	return r
}

// uninstall leaves what helm and cert-manager leave but for the Secrets: the next release is to start from nothing.
func (r *release) uninstall(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := r.helm(ctx, "uninstall", name, "--namespace", name, "--wait"); err != nil {
		t.Error(err)
	}
	if err := r.client.CoreV1().Secrets(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// ready says whether a Certificate of the release is up to date.
func (r *release) ready(ctx context.Context, certificate string) error {
	c, err := r.certificates.CertmanagerV1().Certificates(name).Get(ctx, certificate, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == certmanagerv1.CertificateConditionReady && condition.Status == cmmeta.ConditionTrue && condition.ObservedGeneration == c.Generation {
			return nil
		}
	}
	return fmt.Errorf("certificate %s: %+v", certificate, c.Status.Conditions)
}

// bundle is the CA bundle of all three webhooks.
func (r *release) bundle(ctx context.Context) ([]byte, error) {
	hooks := r.client.AdmissionregistrationV1()
	mutating, err := hooks.MutatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	validating, err := hooks.ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if len(mutating.Webhooks) != 1 || len(validating.Webhooks) != 2 {
		return nil, fmt.Errorf("%d mutating and %d validating webhooks, want 1 and 2", len(mutating.Webhooks), len(validating.Webhooks))
	}
	bundle := mutating.Webhooks[0].ClientConfig.CABundle
	for i := range validating.Webhooks {
		if !bytes.Equal(bundle, validating.Webhooks[i].ClientConfig.CABundle) {
			return nil, errors.New("the CA bundles differ")
		}
	}
	if len(bundle) == 0 {
		return nil, errors.New("the CA bundles are empty")
	}
	return bundle, nil
}

// run starts the program with the arguments of the chart's Deployment, the Secret's files and the rights of the chart's
// service account, and leads admission requests to it.
func (r *release) run(t *testing.T) {
	t.Helper()
	addresses := freeAddresses(t, 3)
	r.address = addresses[0]
	r.kubelet = newKubelet(t, r.world, name, served)
	kubeconfig, err := r.plane.ServiceAccountKubeconfig(t.Context(), name, name)
	must(t, err)
	deployment, err := r.client.AppsV1().Deployments(name).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	args := deployment.Spec.Template.Spec.Containers[0].Args
	if !strings.Contains(strings.Join(args, " "), "--cert-dir=/certs") {
		t.Fatalf("the Deployment does not read the Secret's files: %v", args)
	}
	// A flag that is given again wins.
	args = append(args, "--cert-dir="+r.kubelet.dir, "--webhook-port="+port(addresses[0]), "--kubeconfig="+kubeconfig,
		"--health-probe-bind-address="+addresses[1], "--metrics-bind-address="+addresses[2])
	r.process, err = certmanager.Launch(t.Context(), r.plane, name, r.program, args...)
	must(t, err)
	t.Cleanup(func() {
		if err := r.process.Stop(); err != nil {
			t.Error(err)
		}
	})
	r.lead(t)
	r.awaitProgram(t, "it is ready", func(ctx context.Context) error { return probe(ctx, "http://"+addresses[1]+"/readyz") })
	// The API server learns of webhook configurations a moment after they are stored.
	r.awaitProgram(t, "admission requests reach it", r.admits)
}

// lead makes the API server reach the program through the Service of the chart: there is no kube-proxy, but an
// ExternalName is resolved by the API server itself, which still checks the certificate against the Service's name.
// It takes the port from the webhook configuration.
func (r *release) lead(t *testing.T) {
	t.Helper()
	external := `{"spec":{"type":"ExternalName","externalName":"localhost","clusterIP":null,"clusterIPs":null,"selector":null}}`
	_, err := r.client.CoreV1().Services(name).Patch(t.Context(), name, types.MergePatchType, []byte(external), metav1.PatchOptions{})
	must(t, err)
	to := func(webhooks int) []byte {
		var operations []string
		for i := range webhooks {
			operations = append(operations, fmt.Sprintf(`{"op":"replace","path":"/webhooks/%d/clientConfig/service/port","value":%s}`, i, port(r.address)))
		}
		return []byte("[" + strings.Join(operations, ",") + "]")
	}
	hooks := r.client.AdmissionregistrationV1()
	_, err = hooks.MutatingWebhookConfigurations().Patch(t.Context(), name, types.JSONPatchType, to(1), metav1.PatchOptions{})
	must(t, err)
	_, err = hooks.ValidatingWebhookConfigurations().Patch(t.Context(), name, types.JSONPatchType, to(2), metav1.PatchOptions{})
	must(t, err)
}

// admits asks for sets that are not stored: one that the mutating webhook must complete, and one that the validating
// webhook must refuse.
func (r *release) admits(ctx context.Context) error {
	all, dryRun := r.client.AppsV1().StatefulSets(metav1.NamespaceDefault), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	good, err := all.Create(ctx, sets.New("probe", 1), dryRun)
	if err != nil {
		return err
	}
	if good.Annotations["pvc-pruner.io/prior-replicas"] != "1" {
		return fmt.Errorf("an opted-in set gets no record: %v", good.Annotations)
	}
	odd := sets.New("probe", 1)
	odd.Annotations["pvc-pruner.io/enabled"] = "maybe"
	if _, err := all.Create(ctx, odd, dryRun); err == nil || !strings.Contains(err.Error(), "pvc-pruner.io/enabled") {
		return fmt.Errorf("an odd value is not refused for what it is: %v", err) //nolint:errorlint // it may be nil
	}
	return nil
}

// awaitProgram is await for what the program must do.
func (r *release) awaitProgram(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, r.process.Await(ctx, what, check))
}

// secret returns a Secret's certificate, parsed, and all its data.
func (r *release) secret(ctx context.Context, secret string) (*x509.Certificate, *corev1.Secret, error) {
	s, err := r.client.CoreV1().Secrets(name).Get(ctx, secret, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(s.Data[corev1.TLSCertKey])
	if block == nil {
		return nil, nil, fmt.Errorf("secret %s has no certificate", secret)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	return certificate, s, err
}

func probe(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // only the status counts
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// freeAddresses returns addresses of loopback on which nobody listens now.
func freeAddresses(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		defer func() { must(t, listener.Close()) }() // when all are found, so that none is found twice
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses
}

func port(address string) string {
	_, text, _ := net.SplitHostPort(address) // it came from a listener
	return text
}
