package installation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	own       = "pvc-pruner" // namespace and release
	enough    = 90 * time.Second
	component = "app.kubernetes.io/name=pvc-pruner"
)

var chartFolder = filepath.Join(root, "charts", "pvc-pruner")

// image are the values by which the chart uses the image that was built.
var image = []string{"--set", "image.repository=" + imageName + ",image.tag=" + imageTag + ",image.pullPolicy=Never"}

// ownNamespace makes the namespace of the release, with what a careful administrator sets, and removes all at the end.
func ownNamespace(t *testing.T) {
	t.Helper()
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	newNamespace(t, own, labels)
}

func newNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	namespaces := theNode.Client().CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, enough, func() error { // pods cannot be made before
		_, err := theNode.Client().CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), enough)
		defer cancel()
		if t.Failed() {
			diagnose(ctx, t, name)
		}
		if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		eventually(t, enough, func() error {
			_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("namespace %s is still there: %w", name, err)
		})
	})
}

// diagnose logs what one would look at.
func diagnose(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "all,pvc", "-o", "wide"}, {"events"}, {"logs", "--prefix", "--tail=40", "--ignore-errors", "-l", component},
	} {
		out, _ := command(ctx, "kubectl", append(args, "-n", namespace)...)
		t.Logf("kubectl %s -n %s\n%s", strings.Join(args, " "), namespace, out)
	}
}

// install installs the chart, as its README says, and uninstalls it at the end, which must leave nothing behind.
func install(t *testing.T, values ...string) {
	t.Helper()
	before := objectsInCluster(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), enough)
		defer cancel()
		if t.Failed() {
			diagnose(ctx, t, own)
		}
		if out, err := command(ctx, "helm", "uninstall", own, "-n", own, "--wait"); err != nil {
			t.Error(err, out)
		}
		// As the guide says: cert-manager leaves the Secrets that it made.
		if out, err := command(ctx, "kubectl", "-n", own, "delete", "secret/pvc-pruner-tls", "secret/pvc-pruner-root", "--ignore-not-found"); err != nil {
			t.Error(err, out)
		}
		if after := objectsInCluster(t); !slices.Equal(before, after) {
			t.Errorf("uninstalling left something behind (-before +after):\n%s", cmp.Diff(before, after))
		}
	})
	run(t, "helm", installArgs("install", values...)...)
}

// installArgs waits until all is ready.
func installArgs(verb string, values ...string) []string {
	return append(append([]string{verb, own, chartFolder, "-n", own, "--wait", "--timeout", "120s"}, image...), values...)
}

// objectsInCluster are the names of all objects that could be ours.
func objectsInCluster(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	kinds := "mutatingwebhookconfigurations,validatingwebhookconfigurations,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,secrets,configmaps,services,deployments,poddisruptionbudgets,leases"
	out, err := command(ctx, "kubectl", "get", kinds, "-A", "-o", "name", "--show-managed-fields=false")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(strings.Lines(out))
}

// logs are those of all replicas.
func logs(t *testing.T) string {
	t.Helper()
	return run(t, "kubectl", "logs", "-n", own, "--prefix", "--tail=-1", "--ignore-errors", "-l", component)
}

// rounds is how often what must hold each time is tried; more by hand.
func rounds(t *testing.T) int {
	t.Helper()
	n := 1
	if text := os.Getenv("ROUNDS"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatalf("ROUNDS: %v", err)
		}
	}
	return n
}

// replicas are the pods of the release.
func replicas(t *testing.T) []corev1.Pod {
	t.Helper()
	list, err := theNode.Client().CoreV1().Pods(own).List(t.Context(), metav1.ListOptions{LabelSelector: component})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// usage is what a pod of the release uses: bytes of memory, and billionths of a core.
func usage(t *testing.T, pod string) (memory, cpu uint64, err error) {
	t.Helper()
	var summary struct {
		Pods []struct {
			PodRef struct{ Name, Namespace string }
			Memory struct{ WorkingSetBytes uint64 }
			CPU    struct{ UsageNanoCores uint64 }
		}
	}
	if err := json.Unmarshal([]byte(run(t, "kubectl", "get", "--raw", "/api/v1/nodes/node1/proxy/stats/summary")), &summary); err != nil {
		return 0, 0, err
	}
	for _, p := range summary.Pods {
		if p.PodRef.Name == pod && p.PodRef.Namespace == own && p.Memory.WorkingSetBytes > 0 && p.CPU.UsageNanoCores > 0 {
			return p.Memory.WorkingSetBytes, p.CPU.UsageNanoCores, nil
		}
	}
	return 0, 0, fmt.Errorf("the kubelet says nothing on pod %s yet", pod)
}

// metric is the value of one without labels.
func metric(t *testing.T, text, name string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
