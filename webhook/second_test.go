package webhook

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestASecondInstallationForTheSameNamespacesIsRefused(t *testing.T) {
	in := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: names}}}
	}
	notIn := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}}}}
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	for name, tt := range map[string]struct {
		configuration, webhook string
		selector               *metav1.LabelSelector
		ours                   []string
		refused                bool
	}{
		"our own":                                {"ours", bookkeepingName, notIn, nil, false},
		"somebody else's":                        {"other", "pods.example.com", notIn, nil, false},
		"both for all namespaces":                {"other", bookkeepingName, notIn, nil, true},
		"it without a selector":                  {"other", bookkeepingName, nil, []string{"a"}, true},
		"it for all, we for one":                 {"other", bookkeepingName, notIn, []string{"a"}, true},
		"it for one, we for all":                 {"other", bookkeepingName, in("a"), nil, true},
		"both for one":                           {"other", bookkeepingName, in("a", "b"), []string{"b", "c"}, true},
		"each for its own":                       {"other", bookkeepingName, in("a"), []string{"b"}, false},
		"it by a label, which may select any":    {"other", bookkeepingName, labelled, []string{"b"}, true},
		"our own is in the way of nobody's else": {"ours", bookkeepingName, in("a"), []string{"b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(&admissionregistrationv1.MutatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: tt.configuration, Annotations: map[string]string{"meta.helm.sh/release-namespace": "a", "meta.helm.sh/release-name": "b"}},
				Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: tt.webhook, NamespaceSelector: tt.selector}},
			})
			err := RefuseSecond(t.Context(), client, "ours", tt.ours)
			if refused := err != nil; refused != tt.refused {
				t.Fatalf("refused %t: %v", refused, err)
			}
			if tt.refused && !strings.Contains(err.Error(), "already installed by a/b ") {
				t.Errorf("it does not say by whom: %v", err)
			}
		})
	}
}
