package webhook

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// bookkeepingName is the webhook by which an installation is known, as the chart names it.
const bookkeepingName = "bookkeeping.pvc-pruner.io"

// RefuseSecond returns an error if another installation than that with our own
// MutatingWebhookConfiguration is asked about StatefulSets in the same namespaces (none:
// all): two would undo each other's records.
func RefuseSecond(ctx context.Context, client kubernetes.Interface, own string, namespaces []string) error {
	list, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("look for another installation of pvc-pruner: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == own {
			continue
		}
		for j := range other.Webhooks {
			if other.Webhooks[j].Name == bookkeepingName && overlap(namespaces, selected(other.Webhooks[j].NamespaceSelector)) {
				return fmt.Errorf("pvc-pruner is already installed%s: two would undo each other's records. Uninstall one of them, or give each namespaces of its own with --watch-namespaces", installer(other))
			}
		}
	}
	return nil
}

// installer says where an installation comes from, as far as it is written there.
func installer(config *admissionregistrationv1.MutatingWebhookConfiguration) string {
	// Helm's own annotations, as on all that it installs.
	namespace, release := config.Annotations["meta.helm.sh/release-namespace"], config.Annotations["meta.helm.sh/release-name"]
	if namespace != "" && release != "" {
		return fmt.Sprintf(" by %s/%s (MutatingWebhookConfiguration %s)", namespace, release, config.Name)
	}
	return " with MutatingWebhookConfiguration " + config.Name
}

// selected returns the namespaces that a selector names, or none where it may select any.
func selected(selector *metav1.LabelSelector) []string {
	if selector == nil {
		return nil
	}
	for _, term := range selector.MatchExpressions {
		if term.Key == corev1.LabelMetadataName && term.Operator == metav1.LabelSelectorOpIn {
			return term.Values
		}
	}
	return nil
}

// overlap takes no namespace for all of them.
func overlap(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}
