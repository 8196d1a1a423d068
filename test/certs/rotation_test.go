// Package certs tests the certificates that pvc-pruner makes for itself on a real API server.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/certs"
	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

const (
	namespace     = "pvc-pruner"
	secret        = "pvc-pruner-ca"
	configuration = "pvc-pruner"
	host          = "pvc-pruner.pvc-pruner.svc"
	// enough for an authority to be made or replaced, and served by all.
	enough = time.Minute
)

// The API server must accept what each replica serves at every moment, also while the authority is replaced.
func TestReplicasAgreeARotationFailsNoHandshakeAndTheBundleIsKeptRight(t *testing.T) {
	plane := start(t)
	client := plane.Client()
	install(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	running, ctx := errgroup.WithContext(ctx)
	defer func() {
		cancel()
		if err := running.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	replicas := []string{serve(ctx, t, plane, running), serve(ctx, t, plane, running)}
	for _, address := range replicas {
		eventually(t, func() error { return trusted(ctx, client, address, nil) })
	}
	first := authority(t, client)

	if err := client.CoreV1().Secrets(namespace).Delete(ctx, secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if handshakes := rotate(ctx, t, client, replicas, first); handshakes < 20 {
		t.Errorf("only %d handshakes were tried while the authority was replaced", handshakes)
	}
	if got := bundle(t, client); !contains(got, first) || !contains(got, authority(t, client)) {
		t.Error("the bundle does not hold the old authority and the new one")
	}

	// A hand, or an upgrade, that changes the bundle is put right.
	if err := certs.InjectCABundle(ctx, client, configuration, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return trusted(ctx, client, replicas[0], nil) })
}

// rotate makes handshakes, none of which may fail, until all replicas serve what another authority than first signed. It
// returns how many they were.
func rotate(ctx context.Context, t *testing.T, client kubernetes.Interface, replicas []string, first []byte) (handshakes int) {
	t.Helper()
	for deadline := time.Now().Add(enough); time.Now().Before(deadline); handshakes++ {
		all := true
		for _, address := range replicas {
			if err := trusted(ctx, client, address, nil); err != nil {
				t.Fatalf("handshake %d: %v", handshakes, err)
			}
			all = all && trusted(ctx, client, address, first) != nil
		}
		if all {
			return handshakes
		}
		time.Sleep(20 * time.Millisecond) // as often as two cores bear it
	}
	t.Fatalf("not all replicas serve a certificate of the new authority after %s", enough)
	return handshakes
}

func start(t *testing.T) *cluster.Cluster {
	t.Helper()
	plane, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane
}

// install makes the namespace and two webhook configurations.
func install(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	url, none := "https://127.0.0.1:1", admissionregistrationv1.SideEffectClassNone
	meta := metav1.ObjectMeta{Name: configuration}
	config := admissionregistrationv1.WebhookClientConfig{URL: &url}
	if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: meta,
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "m.example.com", ClientConfig: config, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: meta,
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "v.example.com", ClientConfig: config, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// serve runs one replica's TLS server and returns its address.
func serve(ctx context.Context, t *testing.T, plane *cluster.Cluster, running *errgroup.Group) string {
	t.Helper()
	managed, err := certs.NewManaged(certs.ManagedOptions{
		Config: plane.Config(), Client: plane.Client(), Namespace: namespace, Secret: secret, Configuration: configuration, Hosts: []string{host},
	})
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() error { return managed.Start(ctx) })
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: managed.GetCertificate, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	running.Go(func() error {
		for {
			connection, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if err != nil {
				return err
			}
			if served, ok := connection.(*tls.Conn); ok {
				_ = served.HandshakeContext(ctx) // the client tells what went wrong
			}
			_ = connection.Close()
		}
	})
	return listener.Addr().String()
}

// trusted makes a handshake as the API server would, with the bundle that is stored before it, or with this one.
func trusted(ctx context.Context, client kubernetes.Interface, address string, only []byte) error {
	if only == nil {
		stored, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, configuration, metav1.GetOptions{})
		if err != nil {
			return err
		}
		only = stored.Webhooks[0].ClientConfig.CABundle
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(only) {
		return errors.New("the bundle is empty")
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return connection.Close()
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * enough)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// authority is the certificate in the Secret, in PEM.
func authority(t *testing.T, client kubernetes.Interface) []byte {
	t.Helper()
	s, err := client.CoreV1().Secrets(namespace).Get(t.Context(), secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Data["ca.crt"]
}

func bundle(t *testing.T, client kubernetes.Interface) []byte {
	t.Helper()
	stored, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored.Webhooks[0].ClientConfig.CABundle
}

func contains(bundle, certificate []byte) bool {
	return bytes.Contains(bundle, bytes.TrimSpace(certificate))
}
