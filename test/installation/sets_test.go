package installation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/test/node"
)

// newSet makes an opted-in set without an undo window, whose pods run with the arguments of the pause program.
func newSet(t *testing.T, namespace, name string, replicas int32, change func(*appsv1.StatefulSet), args ...string) {
	t.Helper()
	labels := map[string]string{"app": name}
	user, grace := int64(65535), int64(30)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pvc-pruner.io/enabled": "true", "pvc-pruner.io/delay": "0s"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					SecurityContext:               &corev1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user},
					Containers: []corev1.Container{{
						Name: "main", Image: node.PauseImage, ImagePullPolicy: corev1.PullNever, Args: append([]string{"-data=/data"}, args...),
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
				},
			}},
		},
	}
	if change != nil {
		change(set)
	}
	if _, err := theNode.Client().AppsV1().StatefulSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if set.Spec.Template.Spec.SchedulingGates == nil {
		awaitReady(t, namespace, name, replicas)
	}
}

func awaitReady(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	eventually(t, enough, func() error {
		set, err := theNode.Client().AppsV1().StatefulSets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := set.Status; s.ReadyReplicas != replicas || s.Replicas != replicas || s.ObservedGeneration != set.Generation {
			return fmt.Errorf("%d of %d pods ready, want %d", s.ReadyReplicas, s.Replicas, replicas)
		}
		return nil
	})
}

// waitingForEver is a set whose pods never start, and whose claims go an hour after a scale-down.
func waitingForEver(set *appsv1.StatefulSet) {
	set.Annotations["pvc-pruner.io/delay"] = "1h"
	set.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/never"}}
}

// claims are the UIDs of the claims that are not being deleted, by name.
func claims(t *testing.T, namespace string) map[string]types.UID {
	t.Helper()
	list, err := theNode.Client().CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]types.UID{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			found[list.Items[i].Name] = list.Items[i].UID
		}
	}
	return found
}

func awaitGone(t *testing.T, namespace, claim string) {
	t.Helper()
	eventually(t, enough, func() error {
		_, err := theNode.Client().CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), claim, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(fmt.Errorf("claim %s is still there", claim), err)
	})
}

func awaitEvent(t *testing.T, namespace, reason string) {
	t.Helper()
	eventually(t, enough, func() error {
		events, err := theNode.Client().CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err == nil && len(events.Items) == 0 {
			err = fmt.Errorf("no Event %s", reason)
		}
		return err
	})
}

// kept: each of these has the UID it had.
func kept(t *testing.T, namespace string, before map[string]types.UID, names ...string) {
	t.Helper()
	now := claims(t, namespace)
	for _, name := range names {
		if now[name] == "" || now[name] != before[name] {
			t.Errorf("claim %s is not kept: UID %q, was %q", name, now[name], before[name])
		}
	}
}

// patchReplicas scales as kubectl does, through the subresource or, if that is empty, through the set itself.
func patchReplicas(ctx context.Context, client kubernetes.Interface, namespace, name string, replicas int32, subresource string) error {
	patch := []byte(`{"spec":{"replicas":` + strconv.Itoa(int(replicas)) + `}}`)
	var subresources []string
	if subresource != "" {
		subresources = []string{subresource}
	}
	_, err := client.AppsV1().StatefulSets(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	return err
}

func mustScale(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	if err := patchReplicas(t.Context(), theNode.Client(), namespace, name, replicas, "scale"); err != nil {
		t.Fatal(err)
	}
}

func annotation(t *testing.T, namespace, name, key string) string {
	t.Helper()
	set, err := theNode.Client().AppsV1().StatefulSets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set.Annotations["pvc-pruner.io/"+key]
}
