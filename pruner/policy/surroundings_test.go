package policy_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func podNaming(claims ...string) corev1.PodSpec {
	spec := corev1.PodSpec{Volumes: []corev1.Volume{{Name: "tmp"}}}
	for _, claim := range claims {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return spec
}

func TestClaimThatAWorkloadWillNeed(t *testing.T) {
	needed := func(kind, subject string) judged {
		return judged{Decision: policy.Wait, Reason: policy.ReasonWorkload, Subject: subject, Message: "the pod template of " + kind + " names it"}
	}
	other := newSet(1)
	other.Name, other.UID, other.Spec.VolumeClaimTemplates = "reader", "6a7b", nil
	other.Spec.Template.Spec = podNaming("data-db-3")
	for name, tt := range map[string]gateCase{
		"a CronJob": {
			workloads: []policy.Workload{{Kind: "Job", Name: "x"}, {Kind: "CronJob", Name: "backup", Pod: podNaming("logs", "data-db-3")}},
			want:      needed("CronJob backup", "cronjob/backup"),
		},
		"another StatefulSet's own volumes": {sets: []appsv1.StatefulSet{*other}, want: needed("StatefulSet reader", "statefulset/reader")},
		"one that needs another claim": {
			workloads: []policy.Workload{{Kind: "CronJob", Name: "backup", Pod: podNaming("data-db-33", "data-db")}}, want: deleted,
		},
	} {
		t.Run(name, tt.check)
	}
}

// snapshotOf is the VolumeSnapshot that the pending prune of ready takes of data-db-3.
func snapshotOf(t *testing.T, claim string, uid types.UID, change func(*policy.VolumeSnapshot)) policy.VolumeSnapshot {
	t.Helper()
	own := newClaim("data-db-3")
	vs := policy.VolumeSnapshot{Name: ready(t, with(policy.KeySnapshotClass, "fast")).SnapshotName(&own), Claim: claim, ClaimUID: uid}
	change(&vs)
	return vs
}

func TestClaimOfWhichASnapshotIsAskedFor(t *testing.T) {
	own := newClaim("data-db-3")
	name := snapshotOf(t, "", "", func(*policy.VolumeSnapshot) {}).Name
	if !strings.HasPrefix(name, "data-db-3-") {
		t.Errorf("the name %q does not begin with that of the claim", name)
	}
	asked := []setOption{with(policy.KeySnapshotClass, "fast")}
	wait := func(reason policy.Reason, subject, message string) judged {
		return judged{Decision: policy.Wait, Reason: reason, Subject: subject, Message: message}
	}
	unready, isReady, failed := func(*policy.VolumeSnapshot) {},
		func(v *policy.VolumeSnapshot) { v.Ready = true },
		func(v *policy.VolumeSnapshot) { v.Failure = "no space" }
	foreign := func(ready bool) []policy.VolumeSnapshot {
		return []policy.VolumeSnapshot{{Name: "nightly", Claim: "data-db-3", Ready: ready}}
	}
	for name, tt := range map[string]gateCase{
		"none is there": {set: asked, want: wait(policy.ReasonSnapshotMissing, "volumesnapshot/"+name, "a VolumeSnapshot of it is to be taken first")},
		"it is ready":   {set: asked, snapshots: []policy.VolumeSnapshot{snapshotOf(t, "data-db-3", own.UID, isReady)}, want: deleted},
		"it is not ready": {
			set: asked, snapshots: []policy.VolumeSnapshot{snapshotOf(t, "data-db-3", own.UID, unready)},
			want: wait(policy.ReasonSnapshotTaken, "volumesnapshot/"+name, "VolumeSnapshot "+name+" is not ready yet"),
		},
		"it failed": {
			set: asked, snapshots: []policy.VolumeSnapshot{snapshotOf(t, "data-db-3", own.UID, failed)},
			want: wait(policy.ReasonSnapshotTaken, "volumesnapshot/"+name+"!", "VolumeSnapshot "+name+" failed: no space"),
		},
		"it failed and is ready now": {set: asked, snapshots: []policy.VolumeSnapshot{
			snapshotOf(t, "data-db-3", own.UID, func(v *policy.VolumeSnapshot) { v.Ready, v.Failure = true, "no space" }),
		}, want: deleted},
		"one of that name of an older claim": {
			set: asked, snapshots: []policy.VolumeSnapshot{snapshotOf(t, "data-db-3", "older", isReady)},
			want: wait(policy.ReasonSnapshotTaken, "volumesnapshot/"+name, "VolumeSnapshot "+name+" is there, and not of this claim"),
		},
		"one of that name of another claim": {
			set: asked, snapshots: []policy.VolumeSnapshot{snapshotOf(t, "data-db-4", own.UID, isReady)},
			want: wait(policy.ReasonSnapshotTaken, "volumesnapshot/"+name, "VolumeSnapshot "+name+" is there, and not of this claim"),
		},
		"only one of somebody else": {
			set: asked, snapshots: foreign(true), want: wait(policy.ReasonSnapshotMissing, "volumesnapshot/"+name, "a VolumeSnapshot of it is to be taken first"),
		},
		"somebody else takes one, and none is asked for": {
			snapshots: foreign(false), want: wait(policy.ReasonSnapshotting, "volumesnapshot/nightly", "VolumeSnapshot nightly of it is not ready"),
		},
		"one that failed is not asked for any more": {
			snapshots: []policy.VolumeSnapshot{snapshotOf(t, "data-db-3", own.UID, failed)}, want: deleted,
		},
		"one under way is not asked for any more": {
			snapshots: []policy.VolumeSnapshot{snapshotOf(t, "data-db-3", own.UID, unready)},
			want:      wait(policy.ReasonSnapshotting, "volumesnapshot/"+name, "VolumeSnapshot "+name+" of it is not ready"),
		},
		"somebody else's failed": {
			snapshots: []policy.VolumeSnapshot{{Name: "nightly", Claim: "data-db-3", Failure: "no space"}},
			want:      wait(policy.ReasonSnapshotting, "volumesnapshot/nightly", "VolumeSnapshot nightly of it is not ready"),
		},
		"somebody else took one, and none is asked for": {snapshots: foreign(true), want: deleted},
	} {
		// The sibling's snapshot is ready, so that it goes whatever becomes of this one.
		sibling := newClaim("data-db-4")
		plan := ready(t, tt.set...)
		tt.snapshots = append(tt.snapshots, policy.VolumeSnapshot{Name: plan.SnapshotName(&sibling), Claim: sibling.Name, ClaimUID: sibling.UID, Ready: true})
		t.Run(name, tt.check)
	}
}

// What was written since an earlier snapshot must not be lost with the claim.
func TestSnapshotOfAnotherClaimClassOrScaleDownIsAnotherOne(t *testing.T) {
	claim := newClaim("data-db-3")
	plan := ready(t, with(policy.KeySnapshotClass, "fast"))
	seen := map[string]string{plan.SnapshotName(&claim): "the first"}
	again := ready(t, with(policy.KeySnapshotClass, "fast"), remembering(pending(5, 3, earlier.Add(-1e9))))
	another := newClaim("data-db-3")
	another.UID = "another"
	for what, name := range map[string]string{
		"another class":      ready(t, with(policy.KeySnapshotClass, "slow")).SnapshotName(&claim),
		"another scale-down": again.SnapshotName(&claim),
		"another claim":      plan.SnapshotName(&another),
	} {
		if was, ok := seen[name]; ok {
			t.Errorf("%s has the name of %s", what, was)
		}
		seen[name] = what
	}
	long := newClaim(strings.Repeat("x", 253))
	if got := plan.SnapshotName(&long); len(got) > 253 {
		t.Errorf("a name of %d characters", len(got))
	}
}
