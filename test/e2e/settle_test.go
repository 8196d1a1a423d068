package e2e

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestFence(t *testing.T) {
	later, earlier := time.Now().Add(time.Hour).Format(time.RFC3339), time.Now().Add(-time.Hour).Format(time.RFC3339)
	for rule, test := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"no fence -> settled":                   {map[string]string{"pvc-pruner.io/enabled": "true"}, ""},
		"a fence -> not settled":                {map[string]string{fenceAnnotation: `{"until":"` + later + `"}`}, `StatefulSet db has the fence {"until":"` + later + `"}`},
		"a fence that has ended -> settled":     {map[string]string{fenceAnnotation: `{"until":"` + earlier + `"}`}, ""},
		"a fence without an end -> not settled": {map[string]string{fenceAnnotation: `{}`}, "StatefulSet db has the fence {}"},
		"an odd fence -> not settled":           {map[string]string{fenceAnnotation: "x"}, "StatefulSet db has the fence x"},
	} {
		t.Run(rule, func(t *testing.T) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "ns", Annotations: test.annotations}}
			s := &script{world: &world{client: fake.NewClientset(set)}, namespace: "ns"}
			got, err := s.fenced(t.Context())
			if err != nil || got != test.want {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
