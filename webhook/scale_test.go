package webhook_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/pvc-pruner/pvc-pruner/webhook"
)

func TestNothingThatGoesWrongKeepsAnybodyFromScaling(t *testing.T) {
	const five, three = `{"kind":"Scale","metadata":{"name":"db"},"spec":{"replicas":5}}`, `{"kind":"Scale","metadata":{"name":"db"},"spec":{"replicas":3}}`
	for name, test := range map[string]struct {
		from, to string // "": five and three
		set      *appsv1.StatefulSet
		err      error
		silent   bool
	}{
		"the new Scale has an odd count":     {to: `{"spec":{"replicas":"many"}}`},
		"the old Scale has an odd count":     {from: `{"spec":{"replicas":"many"}}`},
		"the Scale is no object":             {to: `[1]`},
		"the count is beyond 32 bits":        {to: `{"spec":{"replicas":4294967296}}`},
		"the count is negative":              {to: `{"spec":{"replicas":-1}}`, set: settled(5)},
		"there is no old Scale":              {from: `null`, set: settled(5)},
		"the set cannot be read":             {err: errors.New("no answer")},
		"nobody answers":                     {silent: true},
		"the set does not exist":             {err: notFound("db")},
		"its annotations are odd":            {set: db(5, "enabled", "maybe", "fence", "nonsense", "record", "nonsense")},
		"the set has no replicas":            {set: &appsv1.StatefulSet{}},
		"the set was never opted in":         {set: db(5)},
		"a window without a record":          {set: db(5, "enabled", "true", "target-replicas", "5", "scaled-down-at", "2026-03-01T11:55:00Z")},
		"that, with every orphan in scope":   {set: db(5, "enabled", "true", "scope", "all", "target-replicas", "5", "scaled-down-at", "2026-03-01T11:55:00Z")},
		"a window whose record is another's": {set: pending(9, 5, "record", `{"uid":"other","start":0,"generation":4}`)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a cache that does not answer takes its time
				h := newHooks(t)
				if test.silent {
					h.api = silent(t)
					h.set(t)
				}
				live(h, func() (*appsv1.StatefulSet, error) { return test.set, test.err })
				began := time.Now()
				resp := h.call(t, webhook.ScalePath, scaleDocuments(cmp.Or(test.from, five), cmp.Or(test.to, three)))
				if !resp.Allowed {
					t.Errorf("refused: %v", resp.Result)
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("answered after %s; the API server waits 5 s", took)
				}
			})
		})
	}
}

// scaleDocuments is a scale of db with these very documents.
func scaleDocuments(from, to string) admissionv1.AdmissionRequest {
	return admissionv1.AdmissionRequest{
		Name: "db", Operation: admissionv1.Update, SubResource: "scale",
		OldObject: runtime.RawExtension{Raw: []byte(from)}, Object: runtime.RawExtension{Raw: []byte(to)},
	}
}

// A Scale of 0 comes without spec.replicas, or without a spec.
func TestACountThatIsLeftOutIsZero(t *testing.T) {
	const two, noReplicas, noSpec = `{"spec":{"replicas":2}}`, `{"spec":{}}`, `{"metadata":{"name":"db"}}`
	prune := settled(2, "scale-to-zero", "prune")
	gone := `pvc-pruner will delete data-db-0, data-db-1 at 2026-03-01T12:10:00Z (in 10m), once unused; to keep, scale back to 2 before`
	for name, test := range map[string]struct {
		set      *appsv1.StatefulSet
		from, to string
		want     []string
	}{
		"to zero, without the count":   {prune, two, noReplicas, []string{gone}},
		"to zero, without the spec":    {prune, two, noSpec, []string{gone}},
		"from zero, without the count": {pending(2, 0, "scale-to-zero", "prune"), noReplicas, two, []string{"pvc-pruner will not delete data-db-0, data-db-1 any more"}},
		"from zero, without the spec":  {pending(2, 0, "scale-to-zero", "prune"), noSpec, two, []string{"pvc-pruner will not delete data-db-0, data-db-1 any more"}},
		"from zero, where all is kept": {pending(2, 0), noSpec, two, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			live(h, func() (*appsv1.StatefulSet, error) { return test.set, nil })
			resp := h.call(t, webhook.ScalePath, scaleDocuments(test.from, test.to))
			if diff := gocmp.Diff(test.want, resp.Warnings, equateEmpty); diff != "" || !resp.Allowed {
				t.Errorf("allowed is %v, warnings differ (-want +got):\n%s", resp.Allowed, diff)
			}
		})
	}
}

// Whatever stands in the annotations, and however the parts of a record are mixed.
func TestNoAnnotationKeepsAnybodyFromScaling(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		set := anySet(r)
		h := newHooks(t)
		live(h, func() (*appsv1.StatefulSet, error) { return set, nil })
		count := rapid.Int32Range(0, 9)
		resp := h.call(t, webhook.ScalePath, scaleRequest(t, "db", count.Draw(r, "from"), count.Draw(r, "to")))
		if !resp.Allowed {
			r.Errorf("refused: %v", resp.Result)
		}
		checkFit(r, resp.Warnings)
	})
}

func TestAScaleSaysWhatWillHappen(t *testing.T) {
	const when = "2026-03-01T12:10:00Z (in 10m)"
	for name, test := range map[string]struct {
		set      *appsv1.StatefulSet
		from, to int32
		want     []string
	}{
		"down": {settled(5), 5, 3, []string{
			"pvc-pruner will delete data-db-3, data-db-4 at " + when + ", once unused; to keep, scale back to 5 before",
		}},
		"down, where the live set lags behind the Scale": {settled(3), 5, 2, []string{
			"pvc-pruner will delete data-db-2, data-db-3, data-db-4 at " + when + ", once unused; to keep, scale back to 5 before",
		}},
		"further down": {pending(5, 3), 3, 2, []string{
			"pvc-pruner will delete data-db-2, data-db-3, data-db-4 at " + when + ", once unused; to keep, scale back to 5 before",
		}},
		"back up": {pending(5, 3), 3, 5, []string{"pvc-pruner will not delete data-db-3, data-db-4 any more"}},
		"partly back up": {pending(5, 3), 3, 4, []string{
			"pvc-pruner will not delete data-db-3 any more",
			"pvc-pruner will delete data-db-4 at " + when + ", once unused; to keep, scale back to 5 before",
		}},
		"up":      {settled(3), 3, 5, nil},
		"to zero": {settled(2), 2, 0, []string{`scaled to zero: pvc-pruner keeps all claims (pvc-pruner.io/scale-to-zero is "keep")`}},
		"to zero, to be pruned": {settled(2, "scale-to-zero", "prune"), 2, 0, []string{
			"pvc-pruner will delete data-db-0, data-db-1 at " + when + ", once unused; to keep, scale back to 2 before",
		}},
		"without a window": {settled(3, "delay", "0s"), 3, 2, []string{
			"pvc-pruner will delete data-db-2 as soon as unused; there is no undo window",
		}},
		"paused": {settled(3, "paused", "true"), 3, 2, []string{`pvc-pruner is paused: no claim is deleted while pvc-pruner.io/paused is "true"`}},
		"in a dry run": {settled(3, "dry-run", "true"), 3, 2, []string{
			"dry run, nothing is deleted; otherwise pvc-pruner would delete data-db-2 at " + when + ", once unused; to keep, scale back to 3 before",
		}},
		"with every orphan in scope": {settled(3, "scope", "all"), 3, 2, []string{
			"pvc-pruner will delete every unused claim from ordinal 2 on at " + when + ", once unused; to keep, scale back to 3 before",
		}},
		"with every orphan in scope, halfway back": {pending(5, 2, "scope", "all"), 2, 3, []string{
			"pvc-pruner will not delete data-db-2 any more",
			"pvc-pruner will delete every unused claim from ordinal 3 on at " + when + ", once unused; to keep, scale back to 5 before",
		}},
		"with stale volumes forbidden, there is no window": {settled(3, "stale-volumes", "forbid"), 3, 2, []string{
			"pvc-pruner will delete data-db-2 as soon as unused; there is no undo window",
		}},
		"with a longer delay": {settled(3, "delay", "7d"), 3, 2, []string{
			"pvc-pruner will delete data-db-2 at 2026-03-08T12:00:00Z (in 7d), once unused; to keep, scale back to 3 before",
		}},
		"of several templates": {with(logging(settled(5)), "delay", "1h"), 5, 3, []string{
			"pvc-pruner will delete data-db-3, log-db-3, data-db-4, log-db-4 at 2026-03-01T13:00:00Z (in 1h), once unused; to keep, scale back to 5 before",
		}},
		"of several templates, of which one may go": {with(logging(settled(5)), "templates", "log"), 5, 3, []string{
			"pvc-pruner will delete log-db-3, log-db-4 at " + when + ", once unused; to keep, scale back to 5 before",
		}},
		"of more claims than fit in": {settled(1000), 1000, 10, []string{
			"pvc-pruner will delete data-db-10, data-db-11, data-db-12, data-db-13, data-db-14, data-db-15, data-db-16, data-db-17, data-db-18, data-db-19, data-db-20 " +
				"and 979 more at " + when + ", once unused; to keep, scale back to 1000 before",
		}},
		"of ordinals that do not begin at zero": {startingAt(100)(settled(3, "record", `{"uid":"uid-1","start":100,"generation":4}`)), 3, 2, []string{
			"pvc-pruner will delete data-db-102 at " + when + ", once unused; to keep, scale back to 3 before",
		}},
		"with an annotation that cannot be read": {settled(3, "delay", "soon"), 3, 2, []string{
			"pvc-pruner deletes nothing until this is corrected: pvc-pruner.io/delay",
		}},
		"with a snapshot class, of which was warned": {settled(3, "snapshot-class", "fast"), 3, 2, nil},
		"where Kubernetes itself deletes":            {deletedByKubernetes(settled(3)), 3, 2, []string{builtIn}},
		"back up, where Kubernetes itself deletes":   {deletedByKubernetes(pending(3, 2)), 2, 3, nil},
		"back up while paused":                       {pending(5, 3, "paused", "true"), 3, 5, nil},
		"back up in a dry run":                       {pending(5, 3, "dry-run", "true"), 3, 5, nil},
		"of a set without claims":                    {bare(settled(3)), 3, 2, nil},
		"where no template's claims may go":          {settled(3, "templates", "other"), 3, 2, nil},
		"not opted in":                               {db(3), 3, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			live(h, func() (*appsv1.StatefulSet, error) { return test.set, nil })
			resp := h.call(t, webhook.ScalePath, scaleRequest(t, "db", test.from, test.to))
			if diff := gocmp.Diff(test.want, resp.Warnings, equateEmpty); diff != "" || !resp.Allowed {
				t.Errorf("allowed is %v, warnings differ (-want +got):\n%s", resp.Allowed, diff)
			}
		})
	}
}

func TestTheTimeLeftIsSaidInWholeSeconds(t *testing.T) {
	h := newHooks(t)
	h.clock = func() time.Time { return now.Add(700 * time.Millisecond) }
	h.set(t)
	live(h, func() (*appsv1.StatefulSet, error) { return settled(3), nil })
	want := []string{"pvc-pruner will delete data-db-2 at 2026-03-01T12:10:00Z (in 10m), once unused; to keep, scale back to 3 before"}
	if diff := gocmp.Diff(want, h.call(t, webhook.ScalePath, scaleRequest(t, "db", 3, 2)).Warnings); diff != "" {
		t.Errorf("warnings differ (-want +got):\n%s", diff)
	}
}

func logging(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	set = set.DeepCopy()
	set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "log"}})
	return set
}

func bare(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	set = set.DeepCopy()
	set.Spec.VolumeClaimTemplates = nil
	return set
}

const builtIn = "persistentVolumeClaimRetentionPolicy.whenScaled is Delete: Kubernetes itself deletes claims at a scale-down, " +
	"at once and without an undo; set it to Retain to leave that to pvc-pruner"

func deletedByKubernetes(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	set = set.DeepCopy()
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	return set
}

// What the pruner has not seen with more replicas is not recorded anywhere: the warning must not promise its deletion.
func TestAScaleDownThatIsNotRecordedPromisesNothing(t *testing.T) {
	const honest = "pvc-pruner has not looked at this StatefulSet yet: claims that it was not seen with stay"
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		want bool
	}{
		"recorded": {settled(5), false},
		"not yet":  {without(settled(5), "record"), true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			live(h, func() (*appsv1.StatefulSet, error) { return tt.set, nil })
			resp := h.call(t, webhook.ScalePath, scaleRequest(t, "db", 5, 3))
			if got := slices.Contains(resp.Warnings, honest); got != tt.want {
				t.Errorf("warnings %q", resp.Warnings)
			}
		})
	}
}
