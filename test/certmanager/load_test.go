package certmanager_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pvc-pruner/pvc-pruner/test/sets"
)

// steady is the set that the load scales, from three to two, again and again. Dry runs pass the same admission as what
// is stored.
const steady = "steady"

// between two requests of a kind: as often as two cores bear it.
const between = 20 * time.Millisecond

// load asks all the time, and counts what is not answered as it should be:
//
//   - a handshake as an API server begins it, with the CA bundle that is stored before it. API servers keep their
//     connections for long, so that their requests alone would miss most of a rotation; another API server, or another
//     replica of ours, has none yet.
//   - an update of replicas, which fails where the webhook is not reached.
//   - a scale, which goes through where the webhook is not reached, but then without its warning.
type load struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	done     map[string]int
	failures map[string]int
	first    map[string]error
}

func startLoad(t *testing.T, r *release) *load {
	t.Helper()
	if _, err := r.client.AppsV1().StatefulSets(metav1.NamespaceDefault).Create(t.Context(), sets.New(steady, 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel, done: map[string]int{}, failures: map[string]int{}, first: map[string]error{}}
	heard, unheard := &warnings{}, rest.NoWarnings{}
	warned, quiet := clientHeardBy(t, r, heard), clientHeardBy(t, r, unheard)
	// The API server learns of webhook configurations a moment after they are stored.
	r.awaitProgram(t, "scales reach the webhook", func(ctx context.Context) error { return scale(ctx, warned, heard) })
	l.keep(ctx, "handshake", r.handshake)
	l.keep(ctx, "update", func(ctx context.Context) error { return update(ctx, quiet) })
	l.keep(ctx, "scale", func(ctx context.Context) error { return scale(ctx, warned, heard) })
	t.Cleanup(func() {
		l.stop()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.client.AppsV1().StatefulSets(metav1.NamespaceDefault).Delete(ctx, steady, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return l
}

func clientHeardBy(t *testing.T, r *release, handler rest.WarningHandler) kubernetes.Interface {
	t.Helper()
	config := r.plane.Config()
	config.WarningHandler = handler
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

func (l *load) keep(ctx context.Context, kind string, ask func(context.Context) error) {
	l.running.Go(func() {
		for ctx.Err() == nil {
			if err := ask(ctx); ctx.Err() == nil {
				l.count(kind, err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(between):
			}
		}
	})
}

func (l *load) count(kind string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[kind]++
	if err != nil {
		l.failures[kind]++
		if l.first[kind] == nil {
			l.first[kind] = fmt.Errorf("%s %d: %w", kind, l.done[kind], err)
		}
	}
}

// while is how many requests of each kind a state is held for.
const while = 20

// more waits until some more requests of each kind were made.
func (l *load) more(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	goal := map[string]int{}
	for _, kind := range []string{"handshake", "update", "scale"} {
		goal[kind] = l.done[kind] + while
	}
	l.mu.Unlock()
	for deadline := time.Now().Add(patience); ; time.Sleep(between) {
		reached := true
		l.mu.Lock()
		for kind, wanted := range goal {
			reached = reached && l.done[kind] >= wanted
		}
		l.mu.Unlock()
		if reached {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("fewer than %d requests of a kind in %s", while, patience)
		}
	}
}

// failed returns how many requests failed so far, and the first failure of each kind.
func (l *load) failed() (n int, first error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for kind, failures := range l.failures {
		n += failures
		errs = append(errs, fmt.Errorf("%d of %d failed, first %w", failures, l.done[kind], l.first[kind]))
	}
	return n, errors.Join(errs...)
}

// none fails the test if any request failed.
func (l *load) none(t *testing.T) {
	t.Helper()
	if n, err := l.failed(); n > 0 {
		t.Errorf("%v", err)
	}
}

func (l *load) stop() {
	l.cancel()
	l.running.Wait()
}

// handshake connects to the program as the API server does.
func (r *release) handshake(ctx context.Context) error {
	_, err := r.peer(ctx)
	return err
}

// peer is the certificate that is served, verified with the CA bundle of one of the webhooks.
func (r *release) peer(ctx context.Context) (*x509.Certificate, error) {
	stored, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(stored.Webhooks[0].ClientConfig.CABundle) {
		return nil, errors.New("the CA bundle holds no certificate")
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", r.address)
	if err != nil {
		return nil, err
	}
	peer := connection.(*tls.Conn).ConnectionState().PeerCertificates[0] // tls.Dialer documents the type
	return peer, connection.Close()
}

// update asks the mutating and the validating webhook for StatefulSets.
func update(ctx context.Context, client kubernetes.Interface) error {
	set, err := client.AppsV1().StatefulSets(metav1.NamespaceDefault).Patch(ctx, steady, types.MergePatchType,
		[]byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if set.Annotations["pvc-pruner.io/target-replicas"] != "2" {
		return fmt.Errorf("no record of the scale-down: %v", set.Annotations)
	}
	return nil
}

func scale(ctx context.Context, client kubernetes.Interface, heard *warnings) error {
	heard.forget()
	_, err := client.AppsV1().StatefulSets(metav1.NamespaceDefault).UpdateScale(ctx, steady, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: steady, Namespace: metav1.NamespaceDefault}, Spec: autoscalingv1.ScaleSpec{Replicas: 2},
	}, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if !heard.any() {
		return errors.New("it went through without a warning: the webhook did not answer")
	}
	return nil
}

// warnings remembers whether the API server warned.
type warnings struct {
	mu    sync.Mutex
	heard bool
}

var _ rest.WarningHandler = &warnings{}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(int, string, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = true
}

func (w *warnings) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = false
}

func (w *warnings) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard
}
