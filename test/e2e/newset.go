package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotationPrefix is what a KEY without a slash stands for the rest of.
const annotationPrefix = "pvc-pruner.io/"

// annotationKey completes a KEY of a script.
func annotationKey(key string) string {
	if strings.Contains(key, "/") {
		return key
	}
	return annotationPrefix + key
}

// newSet creates a StatefulSet and waits until its pods are ready.
func newSet(ctx context.Context, s *script, args []string) error {
	set, err := parseSet(args)
	if err != nil {
		return err
	}
	sets := s.client.AppsV1().StatefulSets(s.namespace)
	if _, err := sets.Create(ctx, set, metav1.CreateOptions{FieldManager: "new-set"}); err != nil {
		return fmt.Errorf("create StatefulSet %s: %w", set.Name, err)
	}
	return s.awaitReady(ctx, set.Name, *set.Spec.Replicas)
}

// parseSet builds the StatefulSet of NAME REPLICAS [KEY=VALUE...].
func parseSet(args []string) (*appsv1.StatefulSet, error) {
	replicas, err := parseCount(args[1])
	if err != nil {
		return nil, err
	}
	set := baseSet(args[0], replicas)
	settings, err := parseSettings(args[2:])
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if err := applySetting(set, key, settings[key]); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func parseCount(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, usagef("%q is not a number of replicas", text)
	}
	return int32(n), nil
}

// parseSettings reads KEY=VALUE words; a KEY twice is a slip.
func parseSettings(words []string) (map[string]string, error) {
	settings := map[string]string{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return nil, usagef("%q is not KEY=VALUE", word)
		}
		if _, twice := settings[key]; twice {
			return nil, usagef("%s is given twice", key)
		}
		settings[key] = value
	}
	return settings, nil
}

// baseSet is opted in without an undo window, and has one template, data.
func baseSet(name string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	grace := int64(0)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{annotationPrefix + "enabled": "true", annotationPrefix + "delay": "0s"},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					Containers:                    []corev1.Container{{Name: "main", Image: "example.com/app"}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{newTemplate("data")},
		},
	}
}

func newTemplate(name string) corev1.PersistentVolumeClaim {
	class := "standard"
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			},
		},
	}
}

// applySetting changes the spec for the few keys that mean the spec. Any other key is an annotation; an empty value
// leaves it out.
func applySetting(set *appsv1.StatefulSet, key, value string) error {
	switch key {
	case "start":
		return setStart(set, value)
	case "templates.names":
		set.Spec.VolumeClaimTemplates = nil
		for name := range strings.SplitSeq(value, ",") {
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, newTemplate(name))
		}
	case "policy":
		set.Spec.PodManagementPolicy = appsv1.PodManagementPolicyType(value)
	case "labels":
		return setLabels(set, value)
	case "whenScaled":
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled:  appsv1.PersistentVolumeClaimRetentionPolicyType(value),
			WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		}
	case "class":
		for i := range set.Spec.VolumeClaimTemplates {
			set.Spec.VolumeClaimTemplates[i].Spec.StorageClassName = &value
		}
	default:
		setAnnotation(set, annotationKey(key), value)
	}
	return nil
}

func setAnnotation(set *appsv1.StatefulSet, key, value string) {
	if value == "" {
		delete(set.Annotations, key)
		return
	}
	set.Annotations[key] = value
}

func setStart(set *appsv1.StatefulSet, value string) error {
	start, err := parseCount(value)
	if err != nil {
		return err
	}
	set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: start}
	return nil
}

func setLabels(set *appsv1.StatefulSet, value string) error {
	labels, err := parseSettings(strings.Split(value, ","))
	if err != nil {
		return err
	}
	set.Spec.Selector.MatchLabels = labels
	set.Spec.Template.Labels = labels
	return nil
}
