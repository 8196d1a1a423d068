package chart

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
)

const (
	mutate   = "/mutate-apps-v1-statefulset"
	validate = "/validate-apps-v1-statefulset"
	scale    = "/validate-apps-v1-statefulset-scale"
)

// change is a request that a test makes for a set that exists.
type change func(ctx context.Context, sets appsclient.StatefulSetInterface, name string) error

func patch(body string, subresources ...string) change {
	return func(ctx context.Context, sets appsclient.StatefulSetInterface, name string) error {
		_, err := sets.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
		return err
	}
}

func scaleTo(replicas int32) change {
	return func(ctx context.Context, sets appsclient.StatefulSetInterface, name string) error {
		_, err := sets.UpdateScale(ctx, name, &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
		}, metav1.UpdateOptions{})
		return err
	}
}

func annotate(key, value string) change {
	return patch(`{"metadata":{"annotations":{"` + key + `":` + value + `}}}`)
}

// With failurePolicy Fail a condition that cannot be evaluated fails the request, and
// with Ignore it silently skips us: each row is a real request to a real API server.
func TestTheAPIServerSendsExactlyWhatConcernsUs(t *testing.T) {
	client, calls := plane(t)
	t.Run("requests", func(t *testing.T) { testRequests(t, client, calls) })
	t.Run("excluded namespaces", func(t *testing.T) { testExcluded(t, client, calls) })
}

func testRequests(t *testing.T, client kubernetes.Interface, calls *recorder) {
	sets := client.AppsV1().StatefulSets(metav1.NamespaceDefault)
	both := []string{mutate, validate}
	plain := map[string]string{"example.com/other": "x"}
	optedIn := map[string]string{"pvc-pruner.io/enabled": "true", "example.com/other": "x"}
	for name, test := range map[string]struct {
		annotations map[string]string
		replicas    *int32
		change      change // nil: the creation itself is looked at
		want        []string
	}{
		"a creation without annotations":                          {nil, new(int32(1)), nil, nil},
		"a creation with foreign annotations":                     {plain, new(int32(1)), nil, nil},
		"a creation that opts in":                                 {optedIn, new(int32(1)), nil, both},
		"a creation that opts in and leaves replicas out":         {optedIn, nil, nil, both},
		"replicas of a set without annotations":                   {nil, new(int32(1)), patch(`{"spec":{"replicas":2}}`), nil},
		"replicas of a set with foreign annotations":              {plain, new(int32(1)), patch(`{"spec":{"replicas":2}}`), nil},
		"replicas of an opted-in set":                             {optedIn, new(int32(3)), patch(`{"spec":{"replicas":2}}`), both},
		"replicas to zero":                                        {optedIn, new(int32(3)), patch(`{"spec":{"replicas":0}}`), both},
		"replicas from zero":                                      {optedIn, new(int32(0)), patch(`{"spec":{"replicas":3}}`), both},
		"replicas left out, which means one":                      {optedIn, new(int32(3)), patch(`{"spec":{"replicas":null}}`), both},
		"ordinals that appear":                                    {optedIn, new(int32(3)), patch(`{"spec":{"ordinals":{"start":2}}}`), both},
		"opting in where there are no annotations":                {nil, new(int32(1)), annotate("pvc-pruner.io/enabled", `"true"`), both},
		"opting in beside foreign annotations":                    {plain, new(int32(1)), annotate("pvc-pruner.io/enabled", `"true"`), both},
		"opting out by another value":                             {optedIn, new(int32(1)), annotate("pvc-pruner.io/enabled", `"false"`), both},
		"opting out by removal":                                   {optedIn, new(int32(1)), annotate("pvc-pruner.io/enabled", `null`), both},
		"opting out by removal of all annotations":                {optedIn, new(int32(1)), patch(`{"metadata":{"annotations":null}}`), both},
		"a misspelt annotation":                                   {optedIn, new(int32(1)), annotate("pvc-pruner.io/dely", `"1m"`), both},
		"forged bookkeeping":                                      {optedIn, new(int32(1)), annotate("pvc-pruner.io/prior-replicas", `"9"`), both},
		"an annotation through the status subresource":            {optedIn, new(int32(1)), patch(`{"metadata":{"annotations":{"pvc-pruner.io/prior-replicas":"9"}}}`, "status"), both},
		"a status of an opted-in set":                             {optedIn, new(int32(1)), patch(`{"status":{"replicas":1}}`, "status"), nil},
		"a status with an old spec":                               {optedIn, new(int32(1)), patch(`{"status":{"replicas":1},"spec":{"replicas":9,"ordinals":{"start":3}}}`, "status"), nil},
		"a rollout of an opted-in set":                            {optedIn, new(int32(1)), patch(`{"spec":{"template":{"metadata":{"labels":{"release":"2"}}}}}`), nil},
		"a label of an opted-in set":                              {optedIn, new(int32(1)), patch(`{"metadata":{"labels":{"a":"b"}}}`), nil},
		"a finalizer of an opted-in set":                          {optedIn, new(int32(1)), patch(`{"metadata":{"finalizers":["example.com/f"]}}`), nil},
		"a foreign annotation of an opted-in set":                 {optedIn, new(int32(1)), annotate("example.com/other", `"y"`), nil},
		"an update strategy of an opted-in set":                   {optedIn, new(int32(1)), patch(`{"spec":{"minReadySeconds":1}}`), nil},
		"a scale":                                                 {optedIn, new(int32(3)), scaleTo(2), []string{scale}},
		"a scale to zero, which has no spec.replicas":             {optedIn, new(int32(3)), scaleTo(0), []string{scale}},
		"a scale from zero":                                       {optedIn, new(int32(0)), scaleTo(3), []string{scale}},
		"a scale to the same count":                               {optedIn, new(int32(3)), scaleTo(3), nil},
		"a scale from zero to zero":                               {optedIn, new(int32(0)), scaleTo(0), nil},
		"a patch of a scale":                                      {optedIn, new(int32(3)), patch(`{"spec":{"replicas":1}}`, "scale"), []string{scale}},
		"a patch of a scale that takes replicas away":             {optedIn, new(int32(3)), patch(`{"spec":{"replicas":null}}`, "scale"), []string{scale}},
		"a scale of a set that never opted in, as cannot be told": {nil, new(int32(3)), scaleTo(2), []string{scale}},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet(test.annotations, test.replicas)
			if _, err := sets.Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				calls.taken(set.Name)
				if err := test.change(t.Context(), sets, set.Name); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, calls.taken(set.Name), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("calls differ (-want +got):\n%s", diff)
			}
		})
	}
}

// testExcluded makes an opted-in set in each namespace that is left out.
func testExcluded(t *testing.T, client kubernetes.Interface, calls *recorder) {
	for _, excluded := range []string{metav1.NamespaceSystem, namespace} {
		set := newSet(map[string]string{"pvc-pruner.io/enabled": "true"}, new(int32(1)))
		if _, err := client.AppsV1().StatefulSets(excluded).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := calls.taken(set.Name); len(got) > 0 {
			t.Errorf("a set in %s was sent to %v", excluded, got)
		}
	}
}

var sequence atomic.Int32

// newSet makes a set with a name of its own.
func newSet(annotations map[string]string, replicas *int32) *appsv1.StatefulSet {
	name := fmt.Sprintf("set-%d", sequence.Add(1))
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: appsv1.StatefulSetSpec{
			Replicas: replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
			},
		},
	}
}
