package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

// plane starts a control plane with the chart installed for a recording webhook.
func plane(t *testing.T) (kubernetes.Interface, *recorder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{Nodes: 1, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	calls := newRecorder(t)
	if err := install(ctx, t, c, calls); err != nil {
		t.Fatal(err)
	}
	return c.Client(), calls
}

// install applies the chart and waits until the API server has learnt of its webhooks.
func install(ctx context.Context, t *testing.T, c *cluster.Cluster, calls *recorder) error {
	t.Helper()
	manifest := filepath.Join(t.TempDir(), "chart.yaml")
	text := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", namespace) +
		render(t, "--set", "webhook.url="+calls.URL, "--set", "certs.mode=provided", "--set-string", "webhook.caBundle="+calls.authority())
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, c.Program("kubectl"), "--kubeconfig", c.Kubeconfig(), "apply", "-f", manifest).CombinedOutput()
	if err != nil {
		return fmt.Errorf("apply the chart: %w\n%s", err, out)
	}
	sets := c.Client().AppsV1().StatefulSets(metav1.NamespaceDefault)
	probe := newSet(map[string]string{"pvc-pruner.io/enabled": "true"}, new(int32(1)))
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if _, err := sets.Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return false, err
		}
		return len(calls.taken(probe.Name)) == 2, nil
	})
	if err != nil {
		return errors.Join(errors.New("the API server does not call the webhooks"), err)
	}
	return nil
}
