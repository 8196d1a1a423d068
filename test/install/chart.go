package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

// release is the name under which the chart is installed.
const release = "pvc-pruner"

// chart is the rendered chart without what would run the program in the cluster.
type chart struct {
	manifest       string
	serviceAccount string
	// webhooks is the name of the mutating and the validating webhook configuration.
	webhooks string
}

// render renders the chart of the repository with values, each KEY=VALUE.
func render(ctx context.Context, plane *cluster.Cluster, root, namespace string, values []string) (chart, error) {
	text, err := run(ctx, root, plane.Program("helm"), "template", release, filepath.Join("charts", "pvc-pruner"),
		"--namespace", namespace, "--skip-tests", "--set", strings.Join(values, ","))
	if err != nil {
		return chart{}, err
	}
	return parseChart(text)
}

// parseChart takes the rendered text apart.
func parseChart(text string) (chart, error) {
	var c chart
	var documents []string
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return c, fmt.Errorf("read the rendered chart: %w", err)
		}
		switch object.GetKind() {
		case "", "Deployment", "PodDisruptionBudget":
			continue
		case "ServiceAccount":
			c.serviceAccount = object.GetName()
		case "ValidatingWebhookConfiguration":
			c.webhooks = object.GetName()
		}
		documents = append(documents, document)
	}
	c.manifest = strings.Join(documents, "\n---\n")
	if c.serviceAccount == "" || c.webhooks == "" {
		return c, errors.New("the chart renders no ServiceAccount or no ValidatingWebhookConfiguration")
	}
	return c, nil
}

// apply installs the rendered chart.
func (c chart) apply(ctx context.Context, plane *cluster.Cluster, dir, namespace string) error {
	namespaceObject := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n---\n", namespace)
	path := filepath.Join(dir, "chart.yaml")
	if err := os.WriteFile(path, []byte(namespaceObject+c.manifest), 0o600); err != nil {
		return fmt.Errorf("write the rendered chart: %w", err)
	}
	_, err := run(ctx, dir, plane.Program("kubectl"), "--kubeconfig", plane.Kubeconfig(), "apply", "-f", path, "--namespace", namespace)
	return err
}
