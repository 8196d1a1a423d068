package pruner

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// fullSet has something in every field that an object in a cluster usually has.
func fullSet(options ...setOption) *appsv1.StatefulSet {
	set := newSet(5, 2, append([]setOption{
		with("example.com/x", "y"), with(policy.KeyDelay, "1m"), with(policy.KeyLastPrune, `{"claims":2}`), with(policy.Prefix+"misspelt", "z"),
	}, options...)...)
	set.TypeMeta = metav1.TypeMeta{Kind: "StatefulSet", APIVersion: "apps/v1"}
	set.CreationTimestamp = metav1.NewTime(epoch)
	set.DeletionTimestamp = &metav1.Time{Time: epoch}
	set.Labels = map[string]string{"app": "db"}
	set.Finalizers = []string{"example.com/x"}
	set.OwnerReferences = []metav1.OwnerReference{{Name: "orders"}}
	set.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "helm", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)}}
	set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 4}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Labels}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "db", Image: "db:1"}}
	set.Spec.VolumeClaimTemplates = templates("data", "wal")
	set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Retain"}
	set.Status = appsv1.StatefulSetStatus{ObservedGeneration: 7, Replicas: 3, ReadyReplicas: 2, Conditions: []appsv1.StatefulSetCondition{{Type: "x"}}}
	return set
}

func strip(t *testing.T, set *appsv1.StatefulSet) *appsv1.StatefulSet {
	t.Helper()
	out, err := StripStatefulSet(set)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*appsv1.StatefulSet)
}

func TestCacheKeepsWhatIsNeededAndNothingElse(t *testing.T) {
	full := fullSet()
	before := full.DeepCopy()
	annotations := maps.Clone(full.Annotations)
	delete(annotations, "example.com/x")
	two := int32(2)
	want := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "db", Namespace: namespace, UID: ownUID, ResourceVersion: "100", Generation: generation,
			CreationTimestamp: metav1.NewTime(epoch), DeletionTimestamp: &metav1.Time{Time: epoch}, Annotations: annotations,
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &two, Ordinals: &appsv1.StatefulSetOrdinals{Start: 4}, VolumeClaimTemplates: templates("data", "wal"),
			PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Retain"},
		},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 7, Replicas: 3},
	}
	if diff := cmp.Diff(want, strip(t, full)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, full); diff != "" {
		t.Errorf("the object itself was changed (-before +after):\n%s", diff)
	}
}

func TestDecisionsOnACachedObjectAreThoseOnTheWholeOne(t *testing.T) {
	type decisions struct {
		From, To   int64
		Names      []string
		Due        time.Time
		Hold       *policy.Hold
		Observed   policy.Bookkeeping
		Controls   policy.Controls
		Remembered policy.Bookkeeping
		BuiltIn    bool
	}
	decide := func(set *appsv1.StatefulSet) (d decisions) {
		plan := planOf(set)
		d.From, d.To = plan.Range()
		d.Names, _ = plan.ClaimNames(d.From, d.To, 10)
		d.Due, _ = plan.Due()
		d.Hold = plan.SetGates(set.UID, epoch)
		d.Observed = policy.Observe(set, policy.Seen{Counts: []policy.Count{{Generation: 6, Start: 4, Replicas: 9}}, First: true}, defaults, epoch)
		d.Controls, d.Remembered = plan.Controls, plan.Bookkeeping
		d.BuiltIn = policy.BuiltInDeletes(set)
		return d
	}
	alive := func(set *appsv1.StatefulSet) { set.DeletionTimestamp = nil }
	for name, set := range map[string]*appsv1.StatefulSet{
		"as it is":        fullSet(),
		"opted out":       fullSet(lacking(policy.KeyEnabled)),
		"due":             newSet(5, 2, alive),
		"behind":          newSet(5, 2, atGeneration(9)),
		"without a count": newSet(5, 2, func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }),
		"built in": newSet(5, 2, func(s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Delete"}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(decide(set), decide(strip(t, set))); diff != "" {
				t.Errorf("(-whole +cached):\n%s", diff)
			}
		})
	}
}

func TestSetWithoutAnnotationsOfOursIsCachedWithoutAny(t *testing.T) {
	set := newSet(5, 2)
	set.Annotations = map[string]string{"example.com/x": "y"}
	if got := strip(t, set).Annotations; got != nil {
		t.Errorf("annotations %v", got)
	}
}

func TestStripOfAnotherTypeIsAnError(t *testing.T) {
	if out, err := StripStatefulSet(newPod("db-0")); err == nil || err.Error() != "strip cached object: unexpected type *v1.Pod" {
		t.Errorf("%v, %v", out, err)
	}
}
