package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestVerdictsCoverTheRangeAndNothingElse(t *testing.T) {
	for name, tt := range map[string]struct {
		set    *appsv1.StatefulSet
		claims []string
		want   []string
	}{
		"in numeric order": {
			newSet(9, remembering(pending(12, 9, earlier))),
			[]string{"data-db-11", "data-db-9", "data-db-10", "data-db-8", "data-db-1", "data-db-12"},
			[]string{"data-db-9", "data-db-10", "data-db-11"},
		},
		"within an ordinal in the order of the templates": {
			newSet(3, remembering(pending(5, 3, earlier)), func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = templates("wal", "data") }),
			[]string{"data-db-4", "data-db-3", "wal-db-4", "wal-db-3"},
			[]string{"wal-db-3", "data-db-3", "wal-db-4", "data-db-4"},
		},
		"from the start of the range on": {
			newSet(2, startingAt(100), remembering(pending(5, 2, earlier, from(100)))),
			[]string{"data-db-2", "data-db-4", "data-db-99", "data-db-101", "data-db-102", "data-db-103", "data-db-104", "data-db-105"},
			[]string{"data-db-102", "data-db-103", "data-db-104"},
		},
		"not those of sets whose names begin or end as ours": {
			newSet(0, remembering(pending(9, 0, earlier))),
			[]string{"data-db-1-0", "data-db-3-x-0", "data-my-db-0", "my-data-db-0", "data-db-07", "data-db--1", "data-db-1"},
			[]string{"data-db-1"},
		},
		"not those made for a later scale-up": {
			newSet(2, remembering(pending(3, 2, earlier))), []string{"data-db-2", "data-db-7"}, []string{"data-db-2"},
		},
		"with scope all, every ordinal above": {
			newSet(2, startingAt(5), with(policy.KeyScope, "all"), remembering(pending(2, 2, earlier, from(5)))),
			[]string{"data-db-4", "data-db-5", "data-db-6", "data-db-7", "data-db-4294967294", "data-db-4294967295", "data-db-0"},
			[]string{"data-db-7", "data-db-4294967294"},
		},
		"nothing where nothing was scaled down": {
			newSet(3, remembering(idle(3))), []string{"data-db-3", "data-db-4"}, nil,
		},
		"nothing without bookkeeping": {
			newSet(3, with(policy.KeyScope, "all")), []string{"data-db-0", "data-db-3"}, nil,
		},
		"nothing without a count": {
			newSet(3, noReplicas, remembering(pending(5, 3, earlier))), []string{"data-db-0", "data-db-3"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := policy.Snapshot{Set: tt.set}
			for _, c := range tt.claims {
				snapshot.Claims = append(snapshot.Claims, newClaim(c))
			}
			var got []string
			for _, v := range policy.NewPlan(tt.set, defaults).Verdicts(snapshot) {
				got = append(got, v.Claim.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneStuckClaimHoldsUpNoOther(t *testing.T) {
	plan := policy.NewPlan(newSet(0, remembering(pending(6, 0, earlier))), defaults)
	snapshot := policy.Snapshot{
		Pods: []corev1.Pod{newPod("db-1")},
		Claims: []corev1.PersistentVolumeClaim{
			newClaim("data-db-0", terminating), newClaim("data-db-1"), newClaim("data-db-2"), newClaim("data-db-3", markedKeep("true")),
			newClaim("data-db-4"), newClaim("data-db-5", ownedBy("v1", "ConfigMap", "backup", "c1", true)),
		},
	}
	var got []policy.Decision
	for _, v := range judge(plan, snapshot) {
		got = append(got, v.Decision)
	}
	want := []policy.Decision{policy.Wait, policy.Wait, policy.Delete, policy.Keep, policy.Delete, policy.Keep}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The verdict points at the claim of the snapshot, whose UID and version the DELETE names.
func TestVerdictIsAboutTheClaimThatWasRead(t *testing.T) {
	plan := ready(t)
	snapshot := policy.Snapshot{Set: plan.Set, Claims: []corev1.PersistentVolumeClaim{newClaim("data-db-4"), newClaim("data-db-3")}}
	verdicts := plan.Verdicts(snapshot)
	if len(verdicts) != 2 || verdicts[0].Claim != &snapshot.Claims[1] || verdicts[1].Claim != &snapshot.Claims[0] {
		t.Errorf("verdicts %+v", verdicts)
	}
}

func TestSize(t *testing.T) {
	storage := func(size string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
	for name, tt := range map[string]struct {
		capacity, request corev1.ResourceList
		want              int64
	}{
		"what a bound claim holds":        {storage("2Gi"), storage("1Gi"), 2 << 30},
		"what an unbound claim asked for": {nil, storage("1Gi"), 1 << 30},
		"what cannot be told":             {nil, nil, 0},
		"a fraction of a byte is one":     {storage("1500m"), nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newClaim("data-db-3")
			claim.Status.Capacity, claim.Spec.Resources.Requests = tt.capacity, tt.request
			if got := (policy.Verdict{Claim: &claim}).Size(); got != tt.want {
				t.Errorf("Size = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestFinished(t *testing.T) {
	type decisions []policy.Decision
	for name, tt := range map[string]struct {
		decisions decisions
		want      bool
	}{
		"nothing to judge":     {nil, true},
		"all kept":             {decisions{policy.Keep, policy.Keep}, true},
		"one to wait for":      {decisions{policy.Keep, policy.Wait, policy.Keep}, false},
		"one to be deleted":    {decisions{policy.Keep, policy.Delete}, false},
		"one without decision": {decisions{""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var verdicts []policy.Verdict
			for _, d := range tt.decisions {
				verdicts = append(verdicts, policy.Verdict{Decision: d})
			}
			if got := policy.Finished(verdicts); got != tt.want {
				t.Errorf("Finished = %v", got)
			}
		})
	}
}

func TestNextLook(t *testing.T) {
	for name, tt := range map[string]struct{ waited, want time.Duration }{
		"just begun":               {0, 30 * time.Second},
		"a clock that went back":   {-time.Hour, 30 * time.Second},
		"after two minutes":        {2 * time.Minute, 30 * time.Second},
		"after ten minutes":        {10 * time.Minute, 150 * time.Second},
		"after twenty minutes":     {20 * time.Minute, 5 * time.Minute},
		"after days":               {72 * time.Hour, 5 * time.Minute},
		"after more than any time": {1<<63 - 1, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policy.NextLook(tt.waited); got != tt.want {
				t.Errorf("NextLook(%v) = %v, want %v", tt.waited, got, tt.want)
			}
		})
	}
}
