package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

// inside renders the chart for a pvc-pruner that runs in the cluster.
func inside(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, err := helm(t, args...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, stderr)
	}
	return out
}

func TestTheProgramTakesTheArgumentsOfTheDeployment(t *testing.T) {
	for name, args := range map[string][]string{
		"by default": nil,
		"everything": {
			"--set", "defaults.delay=7d,defaults.scope=all,defaults.scaleToZero=prune,defaults.staleVolumes=forbid,defaults.snapshotClass=csi",
			"--set", `defaults.templates=data\,wal,defaults.paused=true,defaults.dryRun=true,snapshots.enabled=true,considerWorkloads=false`,
			"--set", "extraArgs={--log-level=debug,--workers=4}", "--set", "webhook.port=10250",
		},
		"provided certificate": {"--set", "certs.mode=provided,certs.secretName=x", "--set-string", "webhook.caBundle=x"},
	} {
		t.Run(name, func(t *testing.T) {
			container := one[*appsv1.Deployment](t, objects(t, inside(t, args...))).Spec.Template.Spec.Containers[0]
			command := append([]string{"run", "../../cmd/pvc-pruner"}, container.Args...)
			// --version ends it when the flags are read.
			if out, err := exec.CommandContext(t.Context(), "go", append(command, "--version")...).CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", container.Args, err, out)
			}
		})
	}
}

func TestTheAPIServerReachesTheServiceUnderANameOfTheCertificate(t *testing.T) {
	for _, name := range []string{release, strings.Repeat("long-", 10) + "end"} {
		text, stderr, err := helmAs(t, name, "--set", "fullnameOverride=")
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		all := objects(t, text)
		service := one[*corev1.Service](t, all)
		deployment := one[*appsv1.Deployment](t, all)
		host := service.Name + "." + namespace + ".svc"
		if !slices.ContainsFunc(deployment.Spec.Template.Spec.Containers[0].Args, func(a string) bool { return strings.HasPrefix(a, "--cert-hosts="+host+",") }) {
			t.Errorf("the certificate is not for %s: %v", host, deployment.Spec.Template.Spec.Containers[0].Args)
		}
		if diff := cmp.Diff(service.Spec.Selector, deployment.Spec.Selector.MatchLabels); diff != "" {
			t.Errorf("selectors differ (-Service +Deployment):\n%s", diff)
		}
		for _, w := range one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, all).Webhooks {
			if ref := w.ClientConfig.Service; ref == nil || ref.Name != service.Name || ref.Namespace != namespace || *ref.Port != service.Spec.Ports[0].Port {
				t.Errorf("%s calls %+v", w.Name, ref)
			}
		}
	}
}

func TestTheAuthorityIsTheOnlySecretThatIsRead(t *testing.T) {
	for _, rule := range one[*rbacv1.Role](t, objects(t, inside(t))).Rules {
		if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"create"}) && !slices.Equal(rule.ResourceNames, []string{"pvc-pruner-ca"}) {
			t.Errorf("rights on Secrets: %+v", rule)
		}
	}
	for _, rule := range one[*rbacv1.ClusterRole](t, objects(t, inside(t))).Rules {
		if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.Verbs, "*") {
			t.Errorf("rights in the whole cluster: %+v", rule)
		}
	}
}

// Each variant as the real API server takes it, in a namespace that enforces restricted pods.
func TestEachVariantIsAcceptedByTheAPIServer(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: 1, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	apply := func(t *testing.T, text string, args ...string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "manifest.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--kubeconfig", c.Kubeconfig(), "apply", "--warnings-as-errors", "-f", path}, args...)
		if out, err := exec.CommandContext(t.Context(), c.Program("kubectl"), args...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	apply(t, `{apiVersion: v1, kind: Namespace, metadata: {name: pvc-pruner, labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}}}`)
	// The pod of helm test is refused where its service account, which a dry run does not make, is missing.
	apply(t, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: pvc-pruner-check, namespace: pvc-pruner}}`)
	for name, args := range map[string][]string{
		"by default":      nil,
		"one replica":     {"--set", "replicas=1"},
		"outside":         {"--set", "webhook.url=" + url},
		"provided":        {"--set", "certs.mode=provided,certs.secretName=x", "--set-string", "webhook.caBundle=" + newRecorder(t).authority()},
		"helm test":       {"--skip-tests=false"},
		"watched alone":   {"--set", "watchNamespaces={default,kube-public}"},
		"a policy":        {"--set", "networkPolicy.enabled=true"},
		"snapshots":       {"--set", "snapshots.enabled=true,considerWorkloads=false"},
		"all about a pod": {"--set", "nodeSelector.a=b,priorityClassName=x,podLabels.c=d,podAnnotations.e=f,imagePullSecrets[0].name=g,tolerations[0].operator=Exists,serviceAccount.annotations.h=i"},
	} {
		t.Run(name, func(t *testing.T) { apply(t, inside(t, args...), "--dry-run=server") })
	}
}

// D9
func TestADrainOfANodeFinishes(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: 2, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	kubectl := func(t *testing.T, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), c.Program("kubectl"), append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	kubectl(t, "create", "namespace", namespace)
	for _, replicas := range []string{"1", "2"} {
		t.Run(replicas+" replicas", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "manifest.yaml")
			if err := os.WriteFile(path, []byte(inside(t, "--set", "replicas="+replicas)), 0o600); err != nil {
				t.Fatal(err)
			}
			kubectl(t, "apply", "-f", path)
			kubectl(t, "rollout", "status", "deployment", release, "-n", namespace, "--timeout=60s")
			node := strings.Fields(kubectl(t, "get", "pods", "-n", namespace, "-o", "jsonpath={.items[*].spec.nodeName}"))[0]
			kubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=60s")
			kubectl(t, "rollout", "status", "deployment", release, "-n", namespace, "--timeout=60s")
			kubectl(t, "uncordon", node)
		})
	}
}
