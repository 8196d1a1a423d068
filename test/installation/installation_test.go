package installation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The first request after an installation must find a webhook that works (D7), each time.
func TestAfterHelmInstallAClaimIsPruned(t *testing.T) {
	ownNamespace(t)
	for round := range rounds(t) {
		t.Run(fmt.Sprint(round+1), func(t *testing.T) {
			const namespace = "shop"
			newNamespace(t, namespace, nil)
			install(t)
			newSet(t, namespace, "db", 3, nil) // the first request
			before := claims(t, namespace)
			mustScale(t, namespace, "db", 2)
			if got := annotation(t, namespace, "db", "prior-replicas"); got != "3" {
				t.Errorf("prior-replicas is %q after the first scale-down, want 3", got)
			}
			awaitGone(t, namespace, "data-db-2")
			kept(t, namespace, before, "data-db-0", "data-db-1")
		})
	}
}

// What changes nothing of the installation shares one.
func TestAnInstallation(t *testing.T) {
	ownNamespace(t)
	install(t)
	t.Run("helm test reports", helmTestReports)
	t.Run("a second release is refused in one line", aSecondReleaseIsRefusedInOneLine)
	t.Run("claims wait for pods that end late", claimsWaitForPodsThatEndLate)
	t.Run("its pods keep within their requests", podsKeepWithinTheirRequests)
	t.Run("its certificate's end is a metric", certificateEndIsAMetric)
}

func helmTestReports(t *testing.T) {
	out := run(t, "helm", "test", own, "-n", own, "--timeout", "90s")
	for _, want := range []string{"a misspelt annotation is refused", "has its replicas recorded", "Warning:", "data-pvc-pruner-check-"} {
		if !strings.Contains(out, want) {
			t.Errorf("helm test does not say %q:\n%s", want, out)
		}
	}
	if left := run(t, "kubectl", "get", "statefulsets,pvc,pods", "-n", "default", "-o", "name"); left != "" && !strings.Contains(left, "No resources") {
		t.Errorf("helm test left behind:\n%s", left)
	}
}

// H1
func aSecondReleaseIsRefusedInOneLine(t *testing.T) {
	newNamespace(t, "second", nil)
	out, err := command(t.Context(), "helm", append([]string{"install", "b", chartFolder, "-n", "second"}, image...)...)
	if err == nil || !strings.Contains(out, "already installed by pvc-pruner/pvc-pruner") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if left, err := command(t.Context(), "kubectl", "get", "all,secrets,leases", "-n", "second", "-o", "name"); err != nil || strings.TrimSpace(left) != "" {
		t.Errorf("something was applied (%v):\n%s", err, left)
	}
}

// A pod that drains slowly, and one that does not end at SIGTERM: their claims wait for them.
func claimsWaitForPodsThatEndLate(t *testing.T) {
	const namespace = "late"
	newNamespace(t, namespace, nil)
	stubborn := func(set *appsv1.StatefulSet) { set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(12)) }
	newSet(t, namespace, "slow", 2, nil, "-drain=10s")
	newSet(t, namespace, "stubborn", 2, stubborn, "-ignore-sigterm")
	before := claims(t, namespace)
	for _, name := range []string{"slow", "stubborn"} {
		mustScale(t, namespace, name, 1)
	}
	for _, name := range []string{"slow", "stubborn"} {
		eventually(t, enough, func() error {
			// In this order: the pod was there when the claim was looked at.
			now := claims(t, namespace)
			_, err := theNode.Client().CoreV1().Pods(namespace).Get(t.Context(), name+"-1", metav1.GetOptions{})
			if err == nil && now["data-"+name+"-1"] == "" {
				t.Errorf("claim data-%s-1 went before its pod", name)
			}
			if err == nil {
				return errors.New("the pod is still there")
			}
			return nil
		})
		awaitGone(t, namespace, "data-"+name+"-1")
	}
	kept(t, namespace, before, "data-slow-0", "data-stubborn-0")
}

// G6
func TestOtherNamespacesThanThoseWatchedAreLeftAlone(t *testing.T) {
	ownNamespace(t)
	newNamespace(t, "watched", nil)
	newNamespace(t, "other", nil)
	install(t, "--set", "watchNamespaces={watched}")
	for _, namespace := range []string{"watched", "other"} {
		newSet(t, namespace, "db", 3, nil)
		mustScale(t, namespace, "db", 2)
	}
	awaitGone(t, "watched", "data-db-2")
	awaitReady(t, "other", "db", 2)
	if got := annotation(t, "other", "db", "prior-replicas"); got != "" {
		t.Errorf("prior-replicas of a set that is not watched is %q", got)
	}
	if claims(t, "other")["data-db-2"] == "" {
		t.Error("a claim of a set that is not watched is gone")
	}
	if text := logs(t); strings.Contains(text, "forbidden") {
		t.Errorf("rights are missing:\n%s", text)
	}
}

// D1: while all our pods are gone, nobody is kept from anything but opting in, and they come back by themselves.
func TestAnOutageOfOursStopsNobody(t *testing.T) {
	ownNamespace(t)
	install(t)
	const namespace = "busy"
	newNamespace(t, namespace, nil)
	newSet(t, namespace, "db", 3, nil)
	newSet(t, namespace, "web", 2, nil)
	newSet(t, namespace, "plain", 1, func(set *appsv1.StatefulSet) { set.Annotations = nil })
	before := claims(t, namespace)
	run(t, "kubectl", "scale", "deployment", own, "-n", own, "--replicas=0")
	run(t, "kubectl", "wait", "--for=delete", "pod", "-n", own, "-l", component, "--timeout=60s")

	run(t, "kubectl", "scale", "statefulset", "db", "-n", namespace, "--replicas=2")
	run(t, "kubectl", "scale", "statefulset", "plain", "-n", namespace, "--replicas=2")
	run(t, "kubectl", "set", "env", "statefulset", "web", "-n", namespace, "A=b")
	run(t, "kubectl", "scale", "statefulset", "web", "-n", namespace, "--replicas=1")
	run(t, "kubectl", "label", "statefulset", "plain", "-n", namespace, "a=b")
	run(t, "kubectl", "create", "deployment", "new", "-n", namespace, "--image=none", "--replicas=0")
	run(t, "kubectl", "create", "configmap", "new", "-n", "kube-system")
	run(t, "kubectl", "delete", "configmap", "new", "-n", "kube-system")
	awaitReady(t, namespace, "db", 2)
	awaitReady(t, namespace, "web", 1)
	kept(t, namespace, before, "data-db-0", "data-db-1", "data-db-2", "data-web-0", "data-web-1")

	run(t, "kubectl", "scale", "deployment", own, "-n", own, "--replicas=2")
	run(t, "kubectl", "rollout", "status", "deployment", own, "-n", own, "--timeout=90s")
	// One change since the last that was seen: from 3 to 2. Of two, one could have been to zero.
	awaitGone(t, namespace, "data-db-2")
	awaitEvent(t, namespace, "PruneSkipped")
	kept(t, namespace, before, "data-db-0", "data-db-1", "data-web-0", "data-web-1")
}

// D10: where the API server cannot reach the port, a scale costs the time of the webhook at most, and is not kept.
func TestAPortThatCannotBeReached(t *testing.T) {
	ownNamespace(t)
	install(t, "--set", "webhook.port=10250")
	const namespace = "walled"
	newNamespace(t, namespace, nil)
	newSet(t, namespace, "db", 3, nil)
	before := claims(t, namespace)
	rule := []string{"-p", "tcp", "--dport", "10250", "-d", "10.245.0.0/24", "-j", "DROP"}
	for _, chain := range []string{"OUTPUT", "FORWARD"} {
		if _, err := theNode.Inside(t.Context(), append([]string{"iptables", "-I", chain}, rule...)...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := theNode.Inside(context.Background(), append([]string{"iptables", "-D", chain}, rule...)...); err != nil {
				t.Error(err)
			}
		})
	}
	began := time.Now()
	mustScale(t, namespace, "db", 2)
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the scale took %s, timeoutSeconds is 5", took)
	}
	run(t, "kubectl", "wait", "--for=delete", "pod/db-2", "-n", namespace, "--timeout=60s")
	awaitEvent(t, namespace, "FenceNotEnforced")
	kept(t, namespace, before, "data-db-0", "data-db-1", "data-db-2")
}

// A certificate that the API server does not accept makes pods unready, who say why; one that it accepts is taken up.
func TestACertificateThatIsNotTrustedMakesPodsUnready(t *testing.T) {
	ownNamespace(t)
	good, bad := newAuthority(t), newAuthority(t)
	provided := func(bundle string) []string {
		return []string{"--set", "certs.mode=provided,certs.secretName=served", "--set-string", "webhook.caBundle=" + bundle}
	}
	pair := good.sign(t, own+"."+own+".svc")
	if _, err := theNode.Client().CoreV1().Secrets(own).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "served"}, Type: corev1.SecretTypeTLS, Data: pair,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const namespace = "shop"
	newNamespace(t, namespace, nil)
	install(t, provided(good.bundle)...)
	newSet(t, namespace, "db", 3, nil)
	mustScale(t, namespace, "db", 2)
	awaitGone(t, namespace, "data-db-2")

	args := installArgs("upgrade", provided(bad.bundle)...)
	for i, arg := range args {
		if arg == "120s" {
			args[i] = "20s"
		}
	}
	if out, err := command(t.Context(), "helm", args...); err == nil {
		// Both replicas run on with the same arguments: nothing is rolled out, so helm has nothing to wait for.
		t.Log(out)
	}
	eventually(t, enough, func() error { return replicasReady(t, 0) })
	if text := run(t, "kubectl", "get", "--raw", "/api/v1/namespaces/"+own+"/events"); !strings.Contains(text, "Readiness probe failed") {
		t.Error("no Event says that the readiness probe failed")
	}
	run(t, "helm", installArgs("upgrade", provided(good.bundle)...)...)
	eventually(t, enough, func() error { return replicasReady(t, 2) })
}

func replicasReady(t *testing.T, want int32) error {
	t.Helper()
	deployment, err := theNode.Client().AppsV1().Deployments(own).Get(t.Context(), own, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := deployment.Status.ReadyReplicas; got != want {
		return fmt.Errorf("%d replicas are ready, want %d", got, want)
	}
	return nil
}

// podsKeepWithinTheirRequests reads what the kubelet measures.
func podsKeepWithinTheirRequests(t *testing.T) {
	for _, pod := range replicas(t) {
		request := pod.Spec.Containers[0].Resources.Requests
		var memory, cpu uint64
		eventually(t, enough, func() error { // the kubelet measures now and then
			var err error
			memory, cpu, err = usage(t, pod.Name)
			return err
		})
		t.Logf("%s: %d MiB of %s memory, %d millionths of a core of %s", pod.Name, memory>>20, request.Memory(), cpu/1000, request.Cpu())
		if limit := uint64(request.Memory().Value()); memory > limit {
			t.Errorf("%s works with %d bytes of memory, and requests %d", pod.Name, memory, limit)
		}
	}
}

// certificateEndIsAMetric: D4, and D10 (whether an admission request ever came).
func certificateEndIsAMetric(t *testing.T) {
	asked := false
	for _, pod := range replicas(t) {
		text := run(t, "kubectl", "get", "--raw", "/api/v1/namespaces/"+own+"/pods/"+pod.Name+":8080/proxy/metrics")
		if end := metric(t, text, "pvc_pruner_certificate_expiration_timestamp_seconds"); end < float64(time.Now().Unix()) {
			t.Errorf("%s: the certificate ended at %v", pod.Name, end)
		}
		asked = asked || metric(t, text, "pvc_pruner_admission_last_request_timestamp_seconds") > 0
	}
	if !asked {
		t.Error("no replica says that an admission request came")
	}
}
