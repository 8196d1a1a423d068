package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

const patience = 30 * time.Second

// eventually polls until done returns true.
func eventually(t *testing.T, what string, done func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := poll(t.Context(), what, done); err != nil {
		t.Fatal(err)
	}
}

func poll(ctx context.Context, what string, done func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := done(ctx)
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not after %s (last error: %w)", what, patience, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func claimSpec() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
		},
	}
}

// makeClaim creates a claim in the default namespace and returns its volume once it is bound.
func makeClaim(ctx context.Context, c *cluster.Cluster, name string) (*corev1.PersistentVolume, error) {
	claims := c.Client().CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec()}
	if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	var volume *corev1.PersistentVolume
	err := poll(ctx, "claim "+name+" is bound", func(ctx context.Context) (bool, error) {
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		if err != nil || claim.Status.Phase != corev1.ClaimBound {
			return false, err
		}
		volume, err = c.Client().CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		return err == nil, err
	})
	return volume, err
}

func statefulSet(name string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    &replicas,
			ServiceName: name,
			Selector:    &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "none",
					VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claimSpec(),
			}},
		},
	}
}
