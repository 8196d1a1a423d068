package pruner

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotfake "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/fake"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

var asksForSnapshots = with(policy.KeySnapshotClass, "fast")

// planWithSnapshots is planOf where snapshots may be taken.
func planWithSnapshots(set *appsv1.StatefulSet) policy.Plan {
	may := defaults
	may.Snapshots = true
	return policy.NewPlan(set, may)
}

func snapshotting(c *fakeCluster, snapshots *snapshotfake.Clientset) *step {
	s := c.step()
	s.plan, s.snapshots = planWithSnapshots, snapshots
	return s
}

func newSnapshots() *snapshotfake.Clientset {
	return snapshotfake.NewSimpleClientset() //nolint:staticcheck // its module generates no other
}

func taken(t *testing.T, client *snapshotfake.Clientset) []snapshotv1.VolumeSnapshot {
	t.Helper()
	list, err := client.SnapshotV1().VolumeSnapshots(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestSnapshotIsTakenAndWaitedForBeforeTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 4, asksForSnapshots), newClaim(4))
		client := newSnapshots()
		for range 2 { // the second time it is there, and not ready
			out, err := snapshotting(c, client).run(quietly(t))
			if diff := cmp.Diff([]string{"data-db-4: Wait SnapshotRequired"}, tell(out).Kept); diff != "" || err != nil || out.fenced || out.finished() {
				t.Fatalf("error %v, fenced %v (-want +got):\n%s", err, out.fenced, diff)
			}
			sent(t, c)
		}
		becomesReady(t, client, onlySnapshot(t, client))
		out, err := snapshotting(c, client).run(quietly(t))
		if err != nil || !out.finished() {
			t.Errorf("told %+v, error %v", tell(out), err)
		}
		sent(t, c, "data-db-4")
	})
}

// onlySnapshot checks that exactly one snapshot was taken, the right one.
func onlySnapshot(t *testing.T, client *snapshotfake.Clientset) *snapshotv1.VolumeSnapshot {
	t.Helper()
	found := taken(t, client)
	if len(found) != 1 {
		t.Fatalf("took %d snapshots", len(found))
	}
	vs := found[0]
	if got := *vs.Spec.Source.PersistentVolumeClaimName + " " + *vs.Spec.VolumeSnapshotClassName; got != "data-db-4 fast" {
		t.Errorf("took one of %s", got)
	}
	want := map[string]string{
		"app.kubernetes.io/managed-by": "pvc-pruner", policy.LabelClaimUID: string(newClaim(4).UID),
		policy.AnnotationClaim: "data-db-4", policy.AnnotationStatefulSet: "db",
	}
	if diff := cmp.Diff(want, vs.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	return &vs
}

func becomesReady(t *testing.T, client *snapshotfake.Clientset, vs *snapshotv1.VolumeSnapshot) {
	t.Helper()
	vs.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(true)}
	if _, err := client.SnapshotV1().VolumeSnapshots(namespace).Update(t.Context(), vs, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotThatCannotBeTakenKeepsTheClaimAndSaysWhy(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no such kind": {
			apierrors.NewNotFound(snapshotv1.Resource("volumesnapshots"), ""),
			"a VolumeSnapshot of it is to be taken first, and this cluster does not know VolumeSnapshots",
		},
		"refused": {errors.New("quota"), "a VolumeSnapshot of it is to be taken first, which failed: quota"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 4, asksForSnapshots), newClaim(4))
				client := newSnapshots()
				client.PrependReactor("create", "volumesnapshots", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
				out, err := snapshotting(c, client).run(quietly(t))
				if err != nil || len(out.verdicts) != 1 || out.verdicts[0].Message != tt.want || out.finished() {
					t.Errorf("verdicts %+v, error %v", out.verdicts, err)
				}
				sent(t, c)
			})
		})
	}
}

func TestSnapshotsThatCannotBeListedEndTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 4), newClaim(4))
		client := newSnapshots()
		client.PrependReactor("list", "volumesnapshots", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInternalError(errors.New("etcd is away"))
		})
		if out, err := snapshotting(c, client).run(quietly(t)); !apierrors.IsInternalError(err) {
			t.Errorf("told %+v, error %v", tell(out), err)
		}
		sent(t, c)
	})
}

func TestClusterWithoutSnapshotsPrunesSetsThatAskForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 4), newClaim(4))
		client := newSnapshots()
		client.PrependReactor("list", "volumesnapshots", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(snapshotv1.Resource("volumesnapshots"), "")
		})
		if out, err := snapshotting(c, client).run(quietly(t)); err != nil || !out.finished() {
			t.Errorf("told %+v, error %v", tell(out), err)
		}
		sent(t, c, "data-db-4")
	})
}

func TestDryRunTakesNoSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 4, asksForSnapshots, with(policy.KeyDryRun, "true")), newClaim(4))
		client := newSnapshots()
		out, err := snapshotting(c, client).run(quietly(t))
		if err != nil || len(taken(t, client)) > 0 {
			t.Errorf("took %v, error %v", taken(t, client), err)
		}
		const want = "dry run: would delete data-db-4 (1Gi), after a VolumeSnapshot of class fast"
		if got := dryRunNotice(out.plan, out.verdicts).note; got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	})
}

func TestWorkloadsThatNeedAClaim(t *testing.T) {
	pods := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		Name: "source", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-4"}},
	}}}}
	named := metav1.ObjectMeta{Name: "x", Namespace: namespace}
	owned := *named.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "x", Controller: new(true)}}
	finishedJob := batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}
	for name, tt := range map[string]struct {
		workload runtime.Object
		subject  string // "" where the claim goes
	}{
		"a CronJob":       {&batchv1.CronJob{ObjectMeta: named, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}}}}, "cronjob/x"},
		"a Job":           {&batchv1.Job{ObjectMeta: named, Spec: batchv1.JobSpec{Template: pods}}, "job/x"},
		"a finished Job":  {&batchv1.Job{ObjectMeta: named, Spec: batchv1.JobSpec{Template: pods}, Status: finishedJob}, ""},
		"a Deployment":    {&appsv1.Deployment{ObjectMeta: named, Spec: appsv1.DeploymentSpec{Template: pods}}, "deployment/x"},
		"a DaemonSet":     {&appsv1.DaemonSet{ObjectMeta: named, Spec: appsv1.DaemonSetSpec{Template: pods}}, "daemonset/x"},
		"a ReplicaSet":    {&appsv1.ReplicaSet{ObjectMeta: named, Spec: appsv1.ReplicaSetSpec{Template: pods, Replicas: new(int32(0))}}, "replicaset/x"},
		"an old revision": {&appsv1.ReplicaSet{ObjectMeta: owned, Spec: appsv1.ReplicaSetSpec{Template: pods, Replicas: new(int32(0))}}, ""},
		"one that runs":   {&appsv1.ReplicaSet{ObjectMeta: owned, Spec: appsv1.ReplicaSetSpec{Template: pods, Replicas: new(int32(1))}}, "replicaset/x"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 4), newClaim(4), tt.workload)
				s := c.step()
				s.considerWorkloads = true
				out, err := s.run(quietly(t))
				if err != nil {
					t.Fatal(err)
				}
				if tt.subject == "" {
					sent(t, c, "data-db-4")
					return
				}
				if len(out.verdicts) != 1 || out.verdicts[0].Subject != tt.subject {
					t.Errorf("verdicts %+v", out.verdicts)
				}
				sent(t, c)
			})
		})
	}
}

func TestWorkloadsThatCannotBeListedEndTheStep(t *testing.T) {
	for _, resource := range []string{"cronjobs", "jobs", "deployments", "daemonsets", "replicasets"} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 4), newClaim(4))
				c.fail("list", resource, apierrors.NewInternalError(errors.New("etcd is away")))
				s := c.step()
				s.considerWorkloads = true
				if out, err := s.run(quietly(t)); !apierrors.IsInternalError(err) {
					t.Errorf("told %+v, error %v", tell(out), err)
				}
				sent(t, c)
				s.considerWorkloads = false
				if _, err := s.run(quietly(t)); err != nil {
					t.Errorf("looked at all the same: %v", err)
				}
			})
		})
	}
}
