package pruner_test

import (
	"context"
	"flag"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/pvc-pruner/pvc-pruner/cmd/kubectl-pvc_pruner/command"
	"github.com/pvc-pruner/pvc-pruner/pruner"
	"github.com/pvc-pruner/pvc-pruner/pruner/live"
	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

var (
	clusters = flag.Int("clusters", 1000, "random clusters on which the plugin and the pruner must agree")
	seed     = flag.Uint64("seed", 0, "of the random clusters; 0: another one each time")
)

// own is the name of the set that is judged; one called db can build the same names of claims.
const own = "a-db"

// decided is what a claim's verdict says, without its words.
type decided struct {
	Decision policy.Decision
	Reason   policy.Reason
}

// What the plugin's plan shows is what the pruner decides, on the same random clusters.
func TestThePlanOfThePluginIsWhatThePrunerDecides(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%d clusters, -seed=%d", *clusters, *seed)
	seen := map[decided]int{}
	for i := range *clusters {
		c := drawCluster(rand.New(rand.NewPCG(*seed, uint64(i))))
		want, got := c.decisions(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("cluster %d of -seed=%d: -pruner +plugin:\n%s", i, *seed, diff)
		}
		for _, d := range got {
			seen[d]++
		}
	}
	t.Logf("verdicts: %v", seen)
	if least := 12; *clusters >= 1000 && len(seen) < least {
		t.Errorf("only %d kinds of verdicts came up, want at least %d: the clusters are too much alike", len(seen), least)
	}
}

// cluster is one StatefulSet and what is around it.
type cluster struct {
	now     time.Time
	set     *appsv1.StatefulSet
	objects []runtime.Object
}

// decisions are those of the pruner and of the plugin, on the claims that a prune looks at.
func (c cluster) decisions(t *testing.T) (ofPruner, ofPlugin map[string]decided) {
	t.Helper()
	ctx := context.Background()
	client := fake.NewClientset(c.objects...)
	hold, verdicts, err := pruner.Judge(ctx, client, c.set, policy.DefaultControls(policy.DefaultDelay), c.now)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, _, err := live.Snapshot(ctx, client, c.set)
	if err != nil {
		t.Fatal(err)
	}
	if snapshot.Workloads, err = live.Workloads(ctx, client, c.set.Namespace); err != nil {
		t.Fatal(err)
	}
	shown := command.Foresee(snapshot, c.set, nil, c.now)
	ofPruner, ofPlugin = map[string]decided{}, map[string]decided{}
	if hold != nil {
		ofPruner["the whole set"] = decided{hold.Decision, hold.Reason}
	}
	if shown.Held != nil {
		ofPlugin["the whole set"] = decided{shown.Held.Decision, shown.Held.Reason}
	}
	for _, v := range verdicts {
		ofPruner[v.Claim.Name] = decided{v.Decision, v.Reason}
	}
	for _, claim := range shown.Claims {
		if hold == nil && !outside(claim.Reason) {
			ofPlugin[claim.Name] = decided{claim.Verdict, claim.Reason}
		} else if claim.Verdict == policy.Delete {
			t.Errorf("the plugin says that %s goes, which no prune looks at", claim.Name)
		}
	}
	return ofPruner, ofPlugin
}

func outside(r policy.Reason) bool {
	return r == policy.ReasonInRange || r == policy.ReasonBelowStart || r == policy.ReasonNotScaledDown
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// drawCluster makes most clusters such that something may go, and each with a few oddities.
func drawCluster(r *rand.Rand) cluster {
	c := cluster{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	replicas, down := int32(r.IntN(4)), int32(r.IntN(4))
	prior := replicas + down
	since := c.now.Add(-pick(r, time.Minute, time.Hour, time.Hour, 2*time.Hour))
	c.set = newSet(own, replicas)
	maps.Copy(c.set.Annotations, drawControls(r))
	book := policy.Bookkeeping{Prior: &prior, Record: &policy.Record{UID: c.set.UID, Generation: c.set.Generation}}
	if start := int32(r.IntN(3)); start > 0 && r.IntN(3) == 0 {
		c.set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: start}
		book.Record.Start = start
	}
	if r.IntN(8) > 0 {
		book.Window = &policy.Window{Target: replicas, Since: since}
	}
	if r.IntN(12) == 0 {
		c.set.Status.ObservedGeneration--
	}
	if r.IntN(12) == 0 {
		book.Record.Generation--
	}
	if r.IntN(12) == 0 {
		c.set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		}
	}
	if r.IntN(12) == 0 {
		book.Fence, _ = policy.Fence{From: int64(replicas), Holder: "other", Until: c.now.Add(time.Minute)}.Encode()
	}
	stored, _ := book.Annotations()
	maps.Copy(c.set.Annotations, stored)
	c.objects = append(c.objects, c.set)
	for ordinal := range int64(8) {
		for _, template := range []string{"data", "wal"} {
			if r.IntN(4) > 0 {
				c.objects = append(c.objects, drawClaim(r, policy.ClaimName(template, own, ordinal), since))
			}
		}
	}
	c.addOthers(r)
	return c
}

func drawControls(r *rand.Rand) map[string]string {
	controls := map[string]string{policy.KeyEnabled: "true"}
	for key, values := range map[string][]string{
		policy.KeyDelay: {"0s", "30m", "3h", "odd"}, policy.KeyScope: {"all", "scaled-down"}, policy.KeyScaleToZero: {"prune", "keep"},
		policy.KeyTemplates: {"data", "data,wal"}, policy.KeyPaused: {"true", "false"},
	} {
		if r.IntN(5) == 0 {
			controls[key] = pick(r, values...)
		}
	}
	if r.IntN(20) == 0 {
		controls[policy.KeyEnabled] = "false"
	}
	return controls
}

func newSet(name string, replicas int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: name, UID: types.UID(name), Generation: 5, Annotations: map[string]string{}},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{
			{ObjectMeta: metav1.ObjectMeta{Name: "data"}}, {ObjectMeta: metav1.ObjectMeta{Name: "wal"}},
		}},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 5},
	}
}

func drawClaim(r *rand.Rand, name string, since time.Time) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "t", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(since.Add(-time.Hour)),
	}}
	switch r.IntN(16) {
	case 0:
		claim.Annotations = map[string]string{policy.KeyKeep: pick(r, "true", "", "false")}
	case 1:
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Database", Name: "orders", UID: "o", Controller: new(true)}}
	case 2:
		claim.DeletionTimestamp, claim.Finalizers = &metav1.Time{Time: since}, []string{"kubernetes.io/pvc-protection"}
	case 3:
		claim.CreationTimestamp = metav1.NewTime(since.Add(30 * time.Second))
	case 4:
		claim.Finalizers = []string{"snapshot.storage.kubernetes.io/pvc-as-source-protection"}
	}
	return claim
}

// addOthers adds pods, workloads, clones and another set, which may stand in the way.
func (c *cluster) addOthers(r *rand.Rand) {
	claim := func() string { return policy.ClaimName(pick(r, "data", "wal"), own, r.Int64N(8)) }
	volumes := func() []corev1.Volume {
		return []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim()}}}}
	}
	if r.IntN(2) == 0 {
		c.objects = append(c.objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: policy.PodName(own, r.Int64N(8))}})
	}
	if r.IntN(2) == 0 {
		c.objects = append(c.objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "backup"}, Spec: corev1.PodSpec{Volumes: volumes()}})
	}
	if r.IntN(3) == 0 {
		job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "nightly"}}
		job.Spec.JobTemplate.Spec.Template.Spec.Volumes = volumes()
		c.objects = append(c.objects, job)
	}
	if r.IntN(4) == 0 {
		source := &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: claim()}
		c.objects = append(c.objects, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "copy"}, Spec: corev1.PersistentVolumeClaimSpec{DataSource: source},
		})
	}
	if r.IntN(6) == 0 {
		other := newSet("db", 1)
		other.Spec.VolumeClaimTemplates[0].Name = pick(r, "data", "data-a") // the latter builds the same names
		c.objects = append(c.objects, other)
	}
}
