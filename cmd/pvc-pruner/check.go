package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

const (
	checkDeadline = time.Minute
	checkName     = "pvc-pruner-check-"
	checkTemplate = "data"
	// unreached is said where the API server went on without us.
	unreached = "the webhook was not asked: see whether the pods of pvc-pruner are ready, whether the API server can reach their webhook port, and whether the webhook configurations select namespace %s"
)

// checkInstallation does what a user does, as far as nothing is lost by it, and says to
// out what it saw. What it made is gone when it returns.
func checkInstallation(ctx context.Context, o options, out io.Writer) (err error) {
	config, err := restConfig(o)
	if err != nil {
		return fmt.Errorf("load kubeconfig: %w", err)
	}
	heard := &warnings{}
	config.WarningHandler = heard
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	c := &installationCheck{client: client, heard: heard, namespace: o.check, out: out}
	return c.run(ctx)
}

type installationCheck struct {
	client    kubernetes.Interface
	heard     *warnings
	namespace string
	out       io.Writer
}

func (c *installationCheck) run(ctx context.Context) (err error) {
	if err := c.refusesMistakes(ctx); err != nil {
		return err
	}
	set, err := c.keepsBooks(ctx)
	if set != nil {
		defer func() { err = errors.Join(err, c.remove(context.WithoutCancel(ctx), set)) }()
	}
	if err != nil {
		return err
	}
	return c.warns(ctx, set)
}

func (c *installationCheck) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.out, "ok: "+format+"\n", args...)
}

// refusesMistakes: the validating webhook is asked.
func (c *installationCheck) refusesMistakes(ctx context.Context) error {
	set := checkedSet()
	set.Annotations[policy.Prefix+"enable"] = "true"
	_, err := c.client.AppsV1().StatefulSets(c.namespace).Create(ctx, set, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return fmt.Errorf(unreached, c.namespace)
	case !strings.Contains(err.Error(), policy.Prefix+"enable"):
		return fmt.Errorf("create a StatefulSet in a dry run: %w", err)
	}
	c.say("a misspelt annotation is refused: %v", err)
	return nil
}

// keepsBooks: the mutating webhook is asked, and what it answers is stored.
func (c *installationCheck) keepsBooks(ctx context.Context) (*appsv1.StatefulSet, error) {
	set, err := c.client.AppsV1().StatefulSets(c.namespace).Create(ctx, checkedSet(), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a StatefulSet: %w", err)
	}
	if got := set.Annotations[policy.KeyPriorReplicas]; got != "2" {
		return set, fmt.Errorf("%s of a new StatefulSet with 2 replicas is %q: "+unreached, policy.KeyPriorReplicas, got, c.namespace)
	}
	c.say("a StatefulSet that opts in has its replicas recorded")
	return set, nil
}

// warns: the webhook for scaling is asked, which the API server skips where it cannot.
func (c *installationCheck) warns(ctx context.Context, set *appsv1.StatefulSet) error {
	c.heard.forget()
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: set.Namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
	_, err := c.client.AppsV1().StatefulSets(c.namespace).UpdateScale(ctx, set.Name, scale, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("scale the StatefulSet to 1 in a dry run: %w", err)
	}
	claim := checkTemplate + "-" + set.Name + "-1"
	for _, text := range c.heard.all() {
		if strings.Contains(text, claim) {
			c.say("kubectl scale --replicas=1 --dry-run=server would print: Warning: %s", text)
			return nil
		}
	}
	return fmt.Errorf("no warning names %s: "+unreached, claim, c.namespace)
}

// remove deletes the set and the claim of its first pod, which was never bound.
func (c *installationCheck) remove(ctx context.Context, set *appsv1.StatefulSet) error {
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	options := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground), Preconditions: metav1.NewUIDPreconditions(string(set.UID))}
	if err := c.client.AppsV1().StatefulSets(set.Namespace).Delete(ctx, set.Name, options); err != nil {
		return fmt.Errorf("remove what was made: %w", err)
	}
	// The controller may be about to make the claim until the set is gone.
	for {
		_, err := c.client.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until StatefulSet %s/%s is gone: %w", set.Namespace, set.Name, errors.Join(err, ctx.Err()))
		case <-time.After(500 * time.Millisecond):
		}
	}
	for _, ordinal := range []string{"0", "1"} {
		err := c.client.CoreV1().PersistentVolumeClaims(set.Namespace).Delete(ctx, checkTemplate+"-"+set.Name+"-"+ordinal, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove what was made: %w", err)
		}
	}
	return nil
}

// checkedSet has pods that wait at a gate for ever, and claims that nothing provides.
func checkedSet() *appsv1.StatefulSet {
	name := checkName + rand.String(5)
	labels := map[string]string{"app.kubernetes.io/name": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{policy.KeyEnabled: "true"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](2), ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SchedulingGates: []corev1.PodSchedulingGate{{Name: policy.Prefix + "check"}},
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers: []corev1.Container{{
						Name: "none", Image: "none",
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
					}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: checkTemplate},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: new(""), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Selector:  &metav1.LabelSelector{MatchLabels: labels}, // of no volume
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
				},
			}},
		},
	}
}

// warnings are the admission warnings that came with answers.
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

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.texts...)
}
