package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const busy = "busy"

// Certificates are replaced, the chart is upgraded, replicas are killed and the lease goes from hand to hand, while
// somebody scales all the time: no request fails, each scale-down is seen, and each prune is right (D4, D5).
func TestNothingIsMissedWhileAllIsReplaced(t *testing.T) {
	ownNamespace(t)
	newNamespace(t, busy, nil)
	short := []string{"--set", "certs.caDuration=3m,certs.certDuration=1m"}
	install(t, short...)
	newSet(t, busy, "db", 3, nil)
	before := claims(t, busy)
	load := startLoad(t)

	first := caBundle(t)
	run(t, "helm", installArgs("upgrade", short...)...) // the same values
	run(t, "helm", installArgs("upgrade", append(short, "--set", "podAnnotations.a=b")...)...)
	if !strings.HasPrefix(caBundle(t), strings.TrimSpace(first)) && !strings.Contains(caBundle(t), strings.TrimSpace(first)) {
		t.Error("an upgrade replaced the authority")
	}
	load.mark(t, "two upgrades")

	holder := leaseHolder(t)
	run(t, "kubectl", "delete", "pod", "-n", own, holder)
	run(t, "kubectl", "rollout", "status", "deployment", own, "-n", own, "--timeout=90s")
	load.mark(t, "the elected replica deleted")
	load.forgive(func() { killReplica(t) })
	load.mark(t, "a replica killed")
	run(t, "kubectl", "delete", "lease", own, "-n", own)
	load.mark(t, "the lease deleted")
	loseLease(t)
	load.mark(t, "the lease lost")

	eventually(t, 4*time.Minute, func() error { // two thirds of its life are two minutes
		if strings.Count(caBundle(t), "BEGIN CERTIFICATE") < 2 {
			return errors.New("the authority was not replaced yet")
		}
		return nil
	})
	load.mark(t, "the authority replaced")
	load.stop(t)

	// One prune more, and what was never scaled down is as it was.
	mustScale(t, busy, "db", 2)
	awaitGone(t, busy, "data-db-2")
	kept(t, busy, before, "data-db-0", "data-db-1")
	if text := logs(t); strings.Contains(text, "forbidden") {
		t.Errorf("rights are missing:\n%s", text)
	}
}

// load scales a set whose pods never start, again and again, and prunes a claim of another one.
type load struct {
	client   kubernetes.Interface
	heard    *warnings
	requests atomic.Int64
	prunes   atomic.Int64
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	failed []string
}

func startLoad(t *testing.T) *load {
	t.Helper()
	newSet(t, busy, "load", 3, waitingForEver)
	config := theNode.Config()
	l := &load{heard: &warnings{}}
	config.WarningHandler = l.heard
	var err error
	if l.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	t.Cleanup(func() { cancel(); l.running.Wait() })
	l.running.Go(func() { l.scale(ctx) })
	l.running.Go(func() { l.prune(ctx) })
	return l
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// scale goes up and down by turns through the scale subresource and the set itself. The API server skips the webhook for
// scaling where it cannot reach it: that its warning came shows that it was asked.
func (l *load) scale(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		replicas, subresource := []int32{2, 3}[i%2], []string{"scale", ""}[i/2%2]
		l.heard.forget()
		err := patchReplicas(ctx, l.client, busy, "load", replicas, subresource)
		if ctx.Err() != nil {
			return
		}
		l.requests.Add(1)
		switch {
		case err != nil:
			l.fail("scale to %d through %q: %v", replicas, subresource, err)
		case replicas == 2 && !l.heard.contain("data-load-2"):
			l.fail("scale to %d through %q: the webhook was not asked", replicas, subresource)
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// prune scales down, awaits that the claim goes, and scales up again.
func (l *load) prune(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.pruneOnce(ctx); err != nil && ctx.Err() == nil {
			l.fail("%v", err)
			return
		}
		l.prunes.Add(1)
	}
}

func (l *load) pruneOnce(ctx context.Context) error {
	if err := patchReplicas(ctx, l.client, busy, "db", 2, "scale"); err != nil {
		return fmt.Errorf("scale down: %w", err)
	}
	if err := l.until(ctx, func() (bool, error) {
		_, err := l.client.CoreV1().PersistentVolumeClaims(busy).Get(ctx, "data-db-2", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	}); err != nil {
		return fmt.Errorf("await that data-db-2 is pruned: %w", err)
	}
	if err := patchReplicas(ctx, l.client, busy, "db", 3, "scale"); err != nil {
		return fmt.Errorf("scale up: %w", err)
	}
	if err := l.until(ctx, func() (bool, error) {
		set, err := l.client.AppsV1().StatefulSets(busy).Get(ctx, "db", metav1.GetOptions{})
		return err == nil && set.Status.ReadyReplicas == 3 && set.Status.ObservedGeneration == set.Generation, err
	}); err != nil {
		return fmt.Errorf("await three pods: %w", err)
	}
	return nil
}

func (l *load) until(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*enough)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// forgive lets connections break while f runs: a request that must not pass unseen is refused then, and scaling goes on
// without being asked about.
func (l *load) forgive(f func()) {
	l.mu.Lock()
	before := len(l.failed)
	l.mu.Unlock()
	f()
	l.mu.Lock()
	defer l.mu.Unlock()
	strict := slices.DeleteFunc(l.failed[before:], func(text string) bool {
		return strings.Contains(text, "connection re") || strings.Contains(text, "EOF") || strings.Contains(text, "not asked")
	})
	l.failed = l.failed[:before+len(strict)]
}

// mark says how far the load got, and that nothing failed so far.
func (l *load) mark(t *testing.T, what string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%s %s: %d requests, %d prunes, %d failed", time.Now().UTC().Format(time.TimeOnly), what, l.requests.Load(), l.prunes.Load(), len(l.failed))
	for _, text := range l.failed {
		t.Error(text)
	}
	l.failed = nil
}

// stop leaves the pruned set with three pods.
func (l *load) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	l.running.Wait()
	l.mark(t, "in all")
	if l.requests.Load() < 100 || l.prunes.Load() < 3 {
		t.Errorf("only %d requests and %d prunes: too little to show anything", l.requests.Load(), l.prunes.Load())
	}
	mustScale(t, busy, "db", 3)
	awaitReady(t, busy, "db", 3)
}

func caBundle(t *testing.T) string {
	t.Helper()
	config, err := theNode.Client().AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), own, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(config.Webhooks[0].ClientConfig.CABundle)
}

// leaseHolder is the pod that is elected.
func leaseHolder(t *testing.T) string {
	t.Helper()
	var pod string
	eventually(t, enough, func() error {
		lease, err := theNode.Client().CoordinationV1().Leases(own).Get(t.Context(), own, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("nobody holds the lease")
		}
		pod, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
		return nil
	})
	return pod
}

// killReplica ends one without warning, and waits until it is back. Until the node has noticed, connections go to it
// all the same. One that an upgrade replaced must be gone before: it would not begin anew.
func killReplica(t *testing.T) {
	t.Helper()
	eventually(t, enough, func() error {
		if pods := replicas(t); len(pods) != 2 {
			return fmt.Errorf("there are %d replicas, want 2", len(pods))
		}
		return replicasReady(t, 2)
	})
	before := restarts(t)
	if out, err := theNode.Inside(t.Context(), "sh", "-c", "kill -9 $(pgrep -x pvc-pruner | head -1)"); err != nil {
		t.Errorf("%v %s", err, out)
	}
	eventually(t, enough, func() error {
		if restarts(t) == before {
			return errors.New("the node has not noticed it yet")
		}
		return replicasReady(t, 2)
	})
}

// restarts is how often the containers of the release's replicas began anew.
func restarts(t *testing.T) (sum int32) {
	t.Helper()
	for _, pod := range replicas(t) {
		for _, status := range pod.Status.ContainerStatuses {
			sum += status.RestartCount
		}
	}
	return sum
}

// loseLease gives the lease to somebody who does not exist, and waits until a replica leads again. None begins anew: they
// go on answering.
func loseLease(t *testing.T) {
	t.Helper()
	leaseHolder(t) // the lease may just have been deleted
	before := restarts(t)
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	run(t, "kubectl", "patch", "lease", own, "-n", own, "--type=merge", "-p", `{"spec":{"holderIdentity":"nobody","renewTime":"`+now+`"}}`)
	eventually(t, enough, func() error {
		if holder := leaseHolder(t); holder == "nobody" {
			return errors.New("no replica leads again")
		}
		return nil
	})
	if after := restarts(t); after != before {
		t.Errorf("replicas began anew %d times", after-before)
	}
}

// warnings are the admission warnings that came since they were forgotten.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

var _ rest.WarningHandler = (*warnings)(nil)

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = nil
}

func (w *warnings) contain(part string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.texts, func(text string) bool { return strings.Contains(text, part) })
}
