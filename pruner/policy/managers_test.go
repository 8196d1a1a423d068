package policy_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestReplicasManager(t *testing.T) {
	const replicas, image = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}}}`
	at := func(manager, fields string, age time.Duration) metav1.ManagedFieldsEntry {
		when := metav1.NewTime(thisSec.Add(-age))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &when, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	type entries []metav1.ManagedFieldsEntry
	for name, tt := range map[string]struct {
		fields entries
		want   string
	}{
		"nobody is known":                             {nil, ""},
		"the only manager of the count":               {entries{at("helm", replicas, 0)}, "helm"},
		"managers of something else do not count":     {entries{at("kubectl-edit", image, 0), at("helm", replicas, time.Hour)}, "helm"},
		"the last one of several":                     {entries{at("hpa", replicas, 0), at("helm", replicas, time.Hour)}, "hpa"},
		"the last one of several, listed last":        {entries{at("helm", replicas, time.Hour), at("hpa", replicas, 0)}, "hpa"},
		"a replicas field elsewhere is not the count": {entries{at("kubelet", `{"f:status":{"f:replicas":{}}}`, 0)}, ""},
		"an entry that cannot be read is passed over": {entries{at("odd", `{`, 0), at("helm", replicas, time.Hour)}, "helm"},
		"an entry without a time is passed over":      {entries{{Manager: "odd", FieldsV1: metav1.NewFieldsV1(replicas)}, at("helm", replicas, 0)}, "helm"},
		"an entry without fields is passed over":      {entries{{Manager: "odd", Time: &metav1.Time{Time: now}}, at("helm", replicas, 0)}, "helm"},
		"the scale subresource is a way like any other": {entries{{
			Manager: "kubectl", Subresource: "scale", Time: &metav1.Time{Time: now}, FieldsV1: metav1.NewFieldsV1(replicas),
		}}, "kubectl"},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet(3)
			set.ManagedFields = tt.fields
			if got := policy.ReplicasManager(set); got != tt.want {
				t.Errorf("ReplicasManager = %q, want %q", got, tt.want)
			}
		})
	}
}
