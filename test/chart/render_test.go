package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

func TestRenderingTwiceGivesTheSameText(t *testing.T) {
	if first, second := render(t), render(t); first != second {
		t.Errorf("two renderings differ:\n%s", cmp.Diff(first, second))
	}
}

func TestBadValuesAreRefusedWithWhatIsAccepted(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"cert-manager is missing": {[]string{"--set", "certs.mode=cert-manager"}, "install cert-manager first, or use certs.mode=self-managed"},
		"cert-manager outside":    {[]string{"--set", "certs.mode=cert-manager", "--set", "webhook.url=" + url}, "webhook.url is set"},
		"no authority provided":   {[]string{"--set", "certs.mode=provided", "--set", "certs.secretName=x"}, "webhook.caBundle is required"},
		"no Secret provided":      {[]string{"--set", "certs.mode=provided", "--set", "webhook.caBundle=x"}, "certs.secretName is required"},
		"too short a timeout":     {[]string{"--set", "webhook.timeoutSeconds=2"}, "timeoutSeconds"},
		"an odd delay":            {[]string{"--set", "defaults.delay=soon"}, "delay"},
		"no replica":              {[]string{"--set", "replicas=0"}, "replicas"},
		"a URL with a path":       {[]string{"--set", "webhook.url=https://host:1/path"}, "webhook/url"},
		"a URL without TLS":       {[]string{"--set", "webhook.url=http://host:1"}, "webhook/url"},
		"too long a timeout":      {[]string{"--set", "webhook.url=" + url, "--set", "webhook.timeoutSeconds=30"}, "timeoutSeconds"},
		"a misspelt value":        {[]string{"--set", "webhook.uri=" + url}, "uri"},
		"an old Kubernetes":       {[]string{"--set", "webhook.url=" + url, "--kube-version", "1.29.9"}, "1.30"},
		"its own namespace":       {[]string{"--set", "watchNamespaces={t,pvc-pruner}"}, "watchNamespaces names pvc-pruner"},
		"an odd watched one":      {[]string{"--set", "watchNamespaces={T}"}, "watchNamespaces"},
		"an odd duration":         {[]string{"--set", "certs.certDuration=1d"}, "certDuration"},
		"an odd namespace name":   {[]string{"--set", "webhook.url=" + url, "--set", "excludeNamespaces={A_b}"}, "excludeNamespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, stderr, err := helm(t, test.args...); err == nil || !strings.Contains(stderr, test.want) {
				t.Errorf("error %v, want one that contains %q:\n%s", err, test.want, stderr)
			}
		})
	}
}

func TestEachSupportedMinorRenders(t *testing.T) {
	for _, minor := range []string{"1.30.0", "1.31.0", "1.32.0", "1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0"} {
		render(t, "--kube-version", minor)
	}
}

// The rules are the whole of what can reach us: an outage of ours concerns nothing else.
func TestWebhooksMatchNothingButStatefulSets(t *testing.T) {
	all := objects(t, render(t))
	mutating := one[*admissionregistrationv1.MutatingWebhookConfiguration](t, all).Webhooks
	validating := one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, all).Webhooks
	if len(mutating) != 1 || len(validating) != 2 {
		t.Fatalf("%d mutating and %d validating webhooks, want 1 and 2", len(mutating), len(validating))
	}
	rule := func(resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
		scope := admissionregistrationv1.NamespacedScope
		return admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{resource}, Scope: &scope,
			},
		}
	}
	sets := []admissionregistrationv1.RuleWithOperations{
		rule("statefulsets", admissionregistrationv1.Create, admissionregistrationv1.Update),
		rule("statefulsets/status", admissionregistrationv1.Update),
	}
	scale := []admissionregistrationv1.RuleWithOperations{rule("statefulsets/scale", admissionregistrationv1.Update)}
	for name, diff := range map[string]string{
		"mutating":   cmp.Diff(sets, mutating[0].Rules),
		"validating": cmp.Diff(sets, validating[0].Rules),
		"scale":      cmp.Diff(scale, validating[1].Rules),
	} {
		if diff != "" {
			t.Errorf("%s: rules differ (-want +got):\n%s", name, diff)
		}
	}
	if got := *mutating[0].FailurePolicy; got != admissionregistrationv1.Fail {
		t.Errorf("mutating failurePolicy is %s", got)
	}
	if got := *validating[0].FailurePolicy; got != admissionregistrationv1.Fail {
		t.Errorf("validating failurePolicy is %s", got)
	}
	if got := *validating[1].FailurePolicy; got != admissionregistrationv1.Ignore {
		t.Errorf("the scale webhook's failurePolicy is %s: an outage would block scaling", got)
	}
	// A Scale carries neither labels nor annotations.
	if s := validating[1].ObjectSelector; len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		t.Errorf("the scale webhook has an objectSelector: %v", s)
	}
	for _, c := range validating[1].MatchConditions {
		if strings.Contains(c.Expression, "metadata") {
			t.Errorf("condition %s of the scale webhook looks at metadata", c.Name)
		}
	}
}

func TestNoFieldOfAWebhookIsLeftToDefaults(t *testing.T) {
	all := objects(t, render(t))
	for _, w := range one[*admissionregistrationv1.MutatingWebhookConfiguration](t, all).Webhooks {
		if w.ReinvocationPolicy == nil {
			t.Errorf("%s: no reinvocationPolicy", w.Name)
		}
		checkExplicit(t, w.Name, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions)
	}
	for _, w := range one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, all).Webhooks {
		checkExplicit(t, w.Name, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions)
	}
}

func checkExplicit(t *testing.T, name string, match *admissionregistrationv1.MatchPolicyType, side *admissionregistrationv1.SideEffectClass, timeout *int32, versions []string) {
	t.Helper()
	if match == nil || side == nil || *side != admissionregistrationv1.SideEffectClassNone || timeout == nil || *timeout > 5 || !slices.Equal(versions, []string{"v1"}) {
		t.Errorf("%s: matchPolicy, sideEffects None, timeoutSeconds of at most 5 and version v1 must be given", name)
	}
}

func TestRightsAreTheLeast(t *testing.T) {
	all := objects(t, render(t))
	rule := func(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: strings.Fields(verbs), ResourceNames: names,
		}
	}
	wantCluster := []rbacv1.PolicyRule{
		rule("apps", "statefulsets", "get list watch patch"),
		rule("apps", "statefulsets/scale", "update"),
		rule("", "persistentvolumeclaims", "list watch delete"),
		rule("", "pods", "list"),
		rule("apps", "deployments daemonsets replicasets", "list"),
		rule("batch", "cronjobs jobs", "list"),
		rule("", "replicationcontrollers", "list"),
		rule("events.k8s.io", "events", "create"),
		rule("", "persistentvolumes", "get"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations validatingwebhookconfigurations", "get update", release),
		rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list"),
	}
	if diff := cmp.Diff(wantCluster, one[*rbacv1.ClusterRole](t, all).Rules); diff != "" {
		t.Errorf("rights in the cluster differ (-want +got):\n%s", diff)
	}
	wantOwn := []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "leases", "create"),
		rule("coordination.k8s.io", "leases", "get update", "pvc-pruner"),
		rule("", "events", "create patch"),
	}
	if diff := cmp.Diff(wantOwn, one[*rbacv1.Role](t, all).Rules); diff != "" {
		t.Errorf("rights in the own namespace differ (-want +got):\n%s", diff)
	}
}

// G6
func TestRightsAreGivenInWatchedNamespacesAlone(t *testing.T) {
	all := objects(t, inside(t, "--set", "watchNamespaces={t,u}"))
	for _, rule := range one[*rbacv1.ClusterRole](t, all).Rules {
		for _, resource := range rule.Resources {
			if slices.Contains([]string{"statefulsets", "statefulsets/scale", "persistentvolumeclaims", "pods", "events", "jobs", "deployments"}, resource) {
				t.Errorf("rights on %s in the whole cluster", resource)
			}
		}
	}
	where := map[string]bool{}
	for _, o := range all {
		if role, ok := o.(*rbacv1.Role); ok && slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "persistentvolumeclaims") }) {
			where[role.Namespace] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"t": true, "u": true}, where); diff != "" {
		t.Errorf("rights on claims (-want +got):\n%s", diff)
	}
}

func TestOnlyWatchedNamespacesAreAskedAbout(t *testing.T) {
	all := objects(t, inside(t, "--set", "watchNamespaces={t,u}"))
	for _, w := range one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, all).Webhooks {
		if term := w.NamespaceSelector.MatchExpressions[0]; term.Operator != "In" || !slices.Equal(term.Values, []string{"t", "u"}) || term.Key != "kubernetes.io/metadata.name" {
			t.Errorf("%s is asked about %v", w.Name, w.NamespaceSelector)
		}
	}
	if !slices.Contains(one[*appsv1.Deployment](t, all).Spec.Template.Spec.Containers[0].Args, "--watch-namespaces=t,u") {
		t.Error("the program is not told what to watch")
	}
}

// H1
func TestReleasesOfOneNameShareNothing(t *testing.T) {
	named := map[string]string{}
	for _, place := range []string{"a", "b"} {
		text, stderr, err := helmAs(t, "a", "--namespace", place, "--skip-tests=false", "--set", "watchNamespaces={t}")
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		for _, o := range objects(t, text) {
			accessor, err := meta.Accessor(o)
			if err != nil {
				t.Fatal(err)
			}
			key := fmt.Sprintf("%T %s/%s", o, accessor.GetNamespace(), accessor.GetName())
			if other := named[key]; other != "" && other != place {
				t.Errorf("%s belongs to both releases", key)
			}
			named[key] = place
		}
	}
}

func TestWebhookConfigurationsAreReadOnlyWhereCertificatesAreManagedElsewhere(t *testing.T) {
	all := objects(t, render(t, "--set", "certs.mode=provided", "--set-string", "webhook.caBundle=x"))
	for _, rule := range one[*rbacv1.ClusterRole](t, all).Rules {
		if slices.Contains(rule.Resources, "mutatingwebhookconfigurations") && slices.Contains(rule.Verbs, "update") {
			t.Errorf("rights are %v", rule.Verbs)
		}
	}
}
