package pruner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func newReconciler(t *testing.T, c *fakeCluster) *reconciler {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return &reconciler{
		client: c, defaults: defaults, now: time.Now, memory: newMemory(defaults),
		events: newReporter(c, time.Now), metrics: m, fence: c.fencer(),
	}
}

func ownFence() string {
	return `{"from":2,"holder":"` + ownHolder + `","until":"2000-01-01T00:01:00Z"}`
}

const foreignFence = `{"from":2,"holder":"ffffffff","until":"2000-01-01T00:01:00Z"}`

func TestSettle(t *testing.T) {
	fenced := newSet(5, 2, with(policy.KeyFence, ownFence()))
	summary := policy.Summary{At: epoch, Ordinals: []int64{2}, Claims: 1, Bytes: 1 << 30}
	waiting := []policy.Verdict{{Claim: newClaim(3), Decision: policy.Wait}}
	completed := func(set *appsv1.StatefulSet) {
		b, err := policy.ReadBookkeeping(set.Annotations).Completed(2, summary)
		if err != nil {
			panic(err)
		}
		for _, key := range []string{policy.KeyTargetReplicas, policy.KeyScaledDownAt} {
			delete(set.Annotations, key)
		}
		remembering(b)(set)
	}
	type result struct {
		Annotations map[string]string
		Completed   bool
	}
	for name, tt := range map[string]struct {
		out    outcome
		stored *appsv1.StatefulSet // what is stored by now; nil: what the step left
		want   []setOption         // applied to what is stored by now
		done   bool
	}{
		"a finished step takes the fence down and completes the record": {
			out: outcome{plan: planOf(fenced), fenced: true}, want: []setOption{lacking(policy.KeyFence), completed}, done: true,
		},
		"a finished step without a fence completes the record": {
			out: outcome{plan: planOf(newSet(5, 2))}, want: []setOption{completed}, done: true,
		},
		"a step that waits takes the fence down and leaves the record": {
			out: outcome{plan: planOf(fenced), fenced: true, verdicts: waiting}, want: []setOption{lacking(policy.KeyFence)},
		},
		"a step that waits without a fence leaves everything": {
			out: outcome{plan: planOf(newSet(5, 2)), verdicts: waiting},
		},
		"a step that was broken off takes the fence down": {
			out: outcome{plan: planOf(fenced), fenced: true, stopped: errMoved}, want: []setOption{lacking(policy.KeyFence)},
		},
		"a delete whose end is not known leaves the fence to its end": {
			out: outcome{plan: planOf(fenced), fenced: true, ambiguous: []failure{{}}},
		},
		"a delete that was refused does not": {
			out: outcome{plan: planOf(fenced), fenced: true, failed: []failure{{}}}, want: []setOption{lacking(policy.KeyFence)},
		},
		"a set whose status moved on is written all the same": {
			out:    outcome{plan: planOf(fenced), fenced: true},
			stored: changed(fenced, atVersion("200"), func(s *appsv1.StatefulSet) { s.Status.Replicas = 2 }),
			want:   []setOption{lacking(policy.KeyFence), completed}, done: true,
		},
		"a set that was scaled up meanwhile keeps its record": {
			out:    outcome{plan: planOf(fenced), fenced: true},
			stored: changed(fenced, atVersion("200"), scaledTo(5), atGeneration(8)),
			want:   []setOption{lacking(policy.KeyFence)},
		},
		"a fence of somebody else stays": {
			out:    outcome{plan: planOf(fenced), fenced: true},
			stored: changed(fenced, atVersion("200"), with(policy.KeyFence, foreignFence)),
		},
		"a set that was opted out meanwhile loses the fence only": {
			out:    outcome{plan: planOf(fenced), fenced: true},
			stored: changed(fenced, atVersion("200"), lacking(policy.KeyEnabled)),
			want:   []setOption{lacking(policy.KeyFence)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stored := tt.stored
				if stored == nil {
					stored = tt.out.plan.Set
				}
				c := newFakeCluster(stored.DeepCopy())
				var got result
				var err error
				if got.Completed, err = newReconciler(t, c).settle(quietly(t), tt.out, summary); err != nil {
					t.Fatal(err)
				}
				got.Annotations = c.stored(t).Annotations
				if diff := cmp.Diff(result{changed(stored, tt.want...).Annotations, tt.done}, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestSettleThatFails(t *testing.T) {
	fenced := newSet(5, 2, with(policy.KeyFence, ownFence()))
	away := apierrors.NewInternalError(errors.New("etcd is away"))
	conflicting := apierrors.NewConflict(setsResource.GroupResource(), "db", errors.New("changed"))
	for name, tt := range map[string]struct {
		objects []runtime.Object
		spoil   func(*fakeCluster)
		want    error
	}{
		"a set that is gone is no error":      {nil, func(*fakeCluster) {}, nil},
		"a write that is refused":             {[]runtime.Object{fenced}, func(c *fakeCluster) { c.fail("patch", "statefulsets", away) }, away},
		"a conflict, and then no read":        {[]runtime.Object{changed(fenced, atVersion("200"))}, func(c *fakeCluster) { c.fail("get", "statefulsets", away) }, away},
		"a set that never stops changing":     {[]runtime.Object{fenced}, func(c *fakeCluster) { c.fail("patch", "statefulsets", conflicting) }, conflicting},
		"a set that goes while it is settled": {nil, func(c *fakeCluster) { c.fail("patch", "statefulsets", conflicting) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(tt.objects...)
				tt.spoil(c)
				completed, err := newReconciler(t, c).settle(quietly(t), outcome{plan: planOf(fenced), fenced: true}, policy.Summary{})
				if completed || !errors.Is(err, tt.want) {
					t.Errorf("completed: %v, error %v, want %v", completed, err, tt.want)
				}
				if patches := count(c, "patch"); patches > settleTries {
					t.Errorf("%d writes", patches)
				}
			})
		})
	}
}

func count(c *fakeCluster, verb string) (n int) {
	for _, action := range c.fake.Actions() {
		if action.GetVerb() == verb {
			n++
		}
	}
	return n
}

func TestSettleAlsoWritesWhileWeAreAskedToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(quietly(t))
		cancel()
		fenced := newSet(5, 2, with(policy.KeyFence, ownFence()))
		c := newFakeCluster(fenced.DeepCopy())
		r := newReconciler(t, c)
		if completed, err := r.settle(ctx, outcome{plan: planOf(fenced), fenced: true}, policy.Summary{}); !completed || err != nil {
			t.Errorf("completed: %v, error %v", completed, err)
		}
	})
}

func TestTallySumsUpTheStepsOfOnePrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet(6, 2)
		r := newReconciler(t, newFakeCluster())
		r.memory.note(set)
		verdict := func(ordinal int) policy.Verdict {
			return policy.Verdict{Claim: newClaim(ordinal), Ordinal: int64(ordinal)}
		}
		r.tally(outcome{plan: planOf(set), deleted: []policy.Verdict{verdict(5), verdict(2)}})
		time.Sleep(1500 * time.Millisecond)
		got := r.tally(outcome{plan: planOf(set), deleted: []policy.Verdict{verdict(3)}, dying: []policy.Verdict{verdict(2)}})
		want := policy.Summary{At: epoch.Add(time.Second), Ordinals: []int64{2, 3, 5}, Claims: 4, Bytes: 4 << 30}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
