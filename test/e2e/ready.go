package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// waitReady waits until a StatefulSet has exactly N pods, all ready.
func waitReady(ctx context.Context, s *script, args []string) error {
	name := strings.TrimPrefix(args[0], "sts/")
	n, err := parseCount(args[1])
	if err != nil {
		return err
	}
	return s.awaitReady(ctx, name, n)
}

func (s *script) awaitReady(ctx context.Context, name string, n int32) error {
	return poll(ctx, func(ctx context.Context) (string, error) {
		set, err := s.client.AppsV1().StatefulSets(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("read StatefulSet %s: %w", name, err)
		}
		pods, err := s.client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", fmt.Errorf("list pods: %w", err)
		}
		return unready(set, pods.Items, n), nil
	})
}

// unready says what the set lacks to have exactly n pods, all ready and for its first n ordinals; or "".
func unready(set *appsv1.StatefulSet, pods []corev1.Pod, n int32) string {
	if set.Status.ObservedGeneration < set.Generation {
		return "the StatefulSet controller has not seen the latest change"
	}
	start := int32(0)
	if set.Spec.Ordinals != nil {
		start = set.Spec.Ordinals.Start
	}
	wanted := map[string]bool{}
	for ordinal := start; ordinal < start+n; ordinal++ {
		wanted[set.Name+"-"+strconv.Itoa(int(ordinal))] = true
	}
	var problems []string
	for i := range pods {
		pod := &pods[i]
		switch {
		case !belongs(pod, set):
		case !wanted[pod.Name]:
			problems = append(problems, "pod "+pod.Name+" is still there")
		case pod.DeletionTimestamp != nil || !podReady(pod):
			problems = append(problems, "pod "+pod.Name+" is not ready")
			delete(wanted, pod.Name)
		default:
			delete(wanted, pod.Name)
		}
	}
	for name := range wanted {
		problems = append(problems, "pod "+name+" is missing")
	}
	slices.Sort(problems)
	return strings.Join(problems, "; ")
}

// belongs says whether a pod is one of the set: a StatefulSet of its name controls it, or nobody does and the set will
// adopt it because of its name and labels.
func belongs(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Kind == "StatefulSet" && owner.Name == set.Name
	}
	ordinal, ok := strings.CutPrefix(pod.Name, set.Name+"-")
	if !ok || strings.Trim(ordinal, "0123456789") != "" {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
