package webhook_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pvc-pruner/pvc-pruner/webhook"
)

func TestNothingThatGoesWrongKeepsAnybodyFromScaling(t *testing.T) {
	garbage := runtime.RawExtension{Raw: []byte(`{"spec":{"replicas":"many"}}`)}
	for name, test := range map[string]struct {
		request func(t *testing.T) admissionv1.AdmissionRequest
		set     *appsv1.StatefulSet
		err     error
	}{
		"the new Scale cannot be decoded": {request: func(t *testing.T) admissionv1.AdmissionRequest {
			req := scaleRequest(t, "db", 5, 3)
			req.Object = garbage
			return req
		}},
		"the old Scale cannot be decoded": {request: func(t *testing.T) admissionv1.AdmissionRequest {
			req := scaleRequest(t, "db", 5, 3)
			req.OldObject = garbage
			return req
		}},
		"the set cannot be read":     {err: errors.New("no answer")},
		"the set does not exist":     {err: notFound("db")},
		"its annotations are odd":    {set: db(5, "enabled", "maybe", "fence", "nonsense", "record", "nonsense")},
		"the set has no replicas":    {set: &appsv1.StatefulSet{}},
		"the set was never opted in": {set: db(5)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a cache that does not answer takes its time
				h := newHooks(t)
				live(h, func() (*appsv1.StatefulSet, error) { return test.set, test.err })
				req := scaleRequest(t, "db", 3, 5)
				if test.request != nil {
					req = test.request(t)
				}
				began := time.Now()
				if resp := h.call(t, webhook.ScalePath, req); !resp.Allowed {
					t.Errorf("refused: %v", resp.Result)
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("answered after %s; the API server waits 5 s", took)
				}
			})
		})
	}
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
		"down, where the live set lags behind the Scale": {settled(5), 5, 4, []string{
			"pvc-pruner will delete data-db-4 at " + when + ", once unused; to keep, scale back to 5 before",
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
		"where no template's claims may go": {settled(3, "templates", "other"), 3, 2, nil},
		"not opted in":                      {db(3), 3, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			live(h, func() (*appsv1.StatefulSet, error) { return test.set, nil })
			resp := h.call(t, webhook.ScalePath, scaleRequest(t, "db", test.from, test.to))
			if diff := cmp.Diff(test.want, resp.Warnings, equateEmpty); diff != "" || !resp.Allowed {
				t.Errorf("allowed is %v, warnings differ (-want +got):\n%s", resp.Allowed, diff)
			}
		})
	}
}
