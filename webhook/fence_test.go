package webhook_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
	"github.com/pvc-pruner/pvc-pruner/webhook"
)

// standing is a fence from ordinal 3 on that ends in a minute.
func standing(t *testing.T, end time.Time) string {
	t.Helper()
	value, err := policy.Fence{From: 3, Holder: "nonce", Until: end}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// scaleRequest is what the API server sends for a scale; a count of 0 is left out, as it does.
func scaleRequest(t *testing.T, name string, from, to int32) admissionv1.AdmissionRequest {
	t.Helper()
	document := func(n int32) runtime.RawExtension {
		return raw(t, autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: autoscalingv1.ScaleSpec{Replicas: n}})
	}
	return admissionv1.AdmissionRequest{
		Name: name, Operation: admissionv1.Update, SubResource: "scale", OldObject: document(from), Object: document(to),
	}
}

// live makes the API server hold this set, or answer with an error.
func live(h *hooks, answer func() (*appsv1.StatefulSet, error)) {
	h.client.PrependReactor("get", "statefulsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		set, err := answer()
		return true, set, err
	})
}

func TestAChangeThatReachesBehindAFenceIsHeld(t *testing.T) {
	type answer struct {
		allowed bool
		code    int32
		took    time.Duration // whole tenths of a second
	}
	refusedLate, refusedAtOnce := answer{false, http.StatusConflict, 3 * time.Second}, answer{false, http.StatusConflict, 0}
	atOnce, released, passed := answer{allowed: true}, answer{true, 0, time.Second}, answer{true, 0, 3 * time.Second}
	for name, test := range map[string]struct {
		stored *appsv1.StatefulSet
		sent   func(*appsv1.StatefulSet) *appsv1.StatefulSet // nil: a scale to the count below
		to     int32
		dryRun bool
		// lifted after a second
		lifted bool
		want   answer
	}{
		"a scale-up behind it, until it is gone":       {stored: pending(5, 3), to: 5, lifted: true, want: released},
		"a scale-up behind it, and it stays":           {stored: pending(5, 3), to: 4, want: refusedLate},
		"a scale-up behind it in a dry run":            {stored: pending(5, 3), to: 5, dryRun: true, lifted: true, want: refusedAtOnce},
		"a scale to the same count":                    {stored: pending(5, 3), to: 3, want: atOnce},
		"a scale-down, until it is gone":               {stored: pending(5, 3), to: 1, lifted: true, want: released},
		"a scale-down, which must work in the end":     {stored: pending(5, 3), to: 1, want: passed},
		"a scale-down in a dry run":                    {stored: pending(5, 3), to: 1, dryRun: true, want: atOnce},
		"a scale to zero, where all is kept":           {stored: pending(5, 3), to: 0, lifted: true, want: released},
		"a scale to zero, which must work in the end":  {stored: pending(5, 3), to: 0, want: passed},
		"an update behind it, until it is gone":        {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return scaled(s, 5) }, lifted: true, want: released},
		"an update behind it, and it stays":            {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return scaled(s, 5) }, want: refusedLate},
		"an update to fewer, until it is gone":         {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return scaled(s, 2) }, lifted: true, want: released},
		"an update to fewer":                           {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return scaled(s, 2) }, want: passed},
		"an update to fewer with another control":      {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return scaled(with(s, "delay", "9d"), 2) }, want: refusedLate},
		"a move of the range in front of it":           {stored: pending(5, 1), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return startingAt(1)(s) }, want: passed},
		"a move of the range behind it":                {stored: pending(5, 3), sent: startingAt(2), want: refusedLate},
		"another control, and it stays":                {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return with(s, "delay", "9d") }, want: refusedLate},
		"opting out, which must work in the end":       {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return with(s, "enabled", "false") }, want: passed},
		"pausing, which must work in the end":          {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return with(s, "paused", "true") }, want: passed},
		"opting out with a scale-up behind it":         {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return scaled(with(s, "enabled", "false"), 5) }, want: refusedLate},
		"opting out in a dry run":                      {stored: pending(5, 3), sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return with(s, "enabled", "false") }, dryRun: true, want: refusedAtOnce},
		"a set that was opted out with the fence left": {stored: without(pending(5, 3), "enabled"), to: 5, want: refusedLate},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				stored := with(test.stored, "fence", standing(t, began.Add(time.Minute)))
				h := newHooks(t)
				h.clock = time.Now
				h.set(t)
				permit(h, true, nil)
				live(h, func() (*appsv1.StatefulSet, error) {
					if test.lifted && time.Since(began) >= time.Second {
						return without(stored, "fence"), nil
					}
					return stored, nil
				})
				path, req := webhook.ScalePath, scaleRequest(t, "db", 3, test.to)
				if test.sent != nil {
					path, req = webhook.ValidatePath, update(t, "user", stored, test.sent(stored))
				}
				req.DryRun = &test.dryRun
				resp := h.call(t, path, req)
				got := answer{allowed: resp.Allowed, took: time.Since(began).Truncate(100 * time.Millisecond)}
				if !resp.Allowed {
					got.code = resp.Result.Code
					if !strings.Contains(resp.Result.Message, "fence nonce") {
						t.Errorf("the refusal %q does not name the holder", resp.Result.Message)
					}
					if !test.dryRun && len(resp.Warnings) == 0 {
						t.Error("kubectl shows no reason: there is no warning")
					}
				}
				if got != test.want {
					t.Errorf("answer is %+v, want %+v", got, test.want)
				}
			})
		})
	}
}

func startingAt(start int32) func(*appsv1.StatefulSet) *appsv1.StatefulSet {
	return func(s *appsv1.StatefulSet) *appsv1.StatefulSet {
		s = s.DeepCopy()
		s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: start}
		return s
	}
}

func TestAFenceThatHasEndedHoldsNothing(t *testing.T) {
	h := newHooks(t)
	stored := with(pending(5, 3), "fence", standing(t, now))
	live(h, func() (*appsv1.StatefulSet, error) { return stored, nil })
	if resp := h.call(t, webhook.ScalePath, scaleRequest(t, "db", 3, 5)); !resp.Allowed {
		t.Errorf("scale refused: %v", resp.Result)
	}
	if resp := h.call(t, webhook.ValidatePath, update(t, "user", stored, scaled(stored, 5))); !resp.Allowed {
		t.Errorf("update refused: %v", resp.Result)
	}
}

func TestOnceAFenceWasSeenNotKnowingRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHooks(t)
		h.clock = time.Now
		h.set(t)
		stored := with(pending(5, 3), "fence", standing(t, time.Now().Add(time.Minute)))
		first := true
		live(h, func() (*appsv1.StatefulSet, error) {
			if first {
				first = false
				return stored, nil
			}
			return nil, errors.New("no answer")
		})
		if resp := h.call(t, webhook.ScalePath, scaleRequest(t, "db", 3, 5)); resp.Allowed {
			t.Error("the scale-up is allowed")
		}
	})
}

func TestWhereTheLiveReadFailsTheCacheCanOnlyProtect(t *testing.T) {
	for name, test := range map[string]struct {
		fence bool
		want  bool
	}{
		"a cached fence refuses":  {true, false},
		"no cached fence, it may": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHooks(t)
				set := pending(5, 3)
				if test.fence {
					set = with(set, "fence", standing(t, time.Now().Add(time.Minute)))
				}
				h.clock, h.cached.sets = time.Now, map[string]*appsv1.StatefulSet{"db": set}
				h.set(t)
				live(h, func() (*appsv1.StatefulSet, error) { return nil, errors.New("no answer") })
				if resp := h.call(t, webhook.ScalePath, scaleRequest(t, "db", 3, 5)); resp.Allowed != test.want {
					t.Errorf("allowed is %v", resp.Allowed)
				}
			})
		})
	}
}

// Under failurePolicy Ignore an answer that comes too late lets the scale-up through.
func TestAHoldEndsBeforeTheAPIServerStopsWaiting(t *testing.T) {
	brake := func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return with(s, "paused", "true") }
	for name, test := range map[string]struct {
		wait    time.Duration
		sent    func(*appsv1.StatefulSet) *appsv1.StatefulSet // nil: a scale-up
		review  time.Duration                                 // what the access review takes
		allowed bool
		took    time.Duration
	}{
		"a scale-up, asked by one in a hurry":        {wait: 2 * time.Second, took: 1600 * time.Millisecond},
		"a scale-up, asked by a patient one":         {wait: 30 * time.Second, took: 3 * time.Second},
		"an update, asked by one in a hurry":         {wait: time.Second, sent: toCount(5), took: 800 * time.Millisecond},
		"pausing, asked by one in a hurry":           {wait: time.Second, sent: brake, allowed: true, took: 800 * time.Millisecond},
		"a control, whose review has taken its time": {wait: 5 * time.Second, sent: func(s *appsv1.StatefulSet) *appsv1.StatefulSet { return with(s, "delay", "1m") }, review: 2 * time.Second, took: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stored := with(pending(5, 3), "fence", standing(t, time.Now().Add(time.Minute)))
				h := newHooks(t)
				h.clock = time.Now
				h.set(t)
				permit(h, true, nil)
				h.client.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
					time.Sleep(test.review)
					return false, nil, nil
				})
				live(h, func() (*appsv1.StatefulSet, error) { return stored, nil })
				path, req := webhook.ScalePath, scaleRequest(t, "db", 3, 5)
				if test.sent != nil {
					path, req = webhook.ValidatePath, update(t, "user", stored, test.sent(stored))
				}
				began := time.Now()
				resp := h.callWithin(t, test.wait, path, req)
				if took := time.Since(began).Truncate(100 * time.Millisecond); took != test.took || resp.Allowed != test.allowed {
					t.Errorf("allowed is %v after %s, want %v after %s", resp.Allowed, took, test.allowed, test.took)
				}
				if !resp.Allowed && resp.Result.Code != http.StatusConflict {
					t.Errorf("the answer is %v, want 409", resp.Result)
				}
			})
		})
	}
}

// What a change means is told when the API server asks again: by then the claims are gone.
func TestAReleasedChangeSaysNothingOfTheObjectAsItWas(t *testing.T) {
	fencedSet := with(pending(5, 3), "fence", standing(t, now.Add(time.Minute)))
	for path, req := range map[string]admissionv1.AdmissionRequest{
		webhook.ScalePath:    scaleRequest(t, "db", 3, 5),
		webhook.ValidatePath: update(t, "jane", fencedSet, scaled(fencedSet, 5)),
	} {
		h := newHooks(t)
		looks := 0
		live(h, func() (*appsv1.StatefulSet, error) {
			if looks++; looks > 2 {
				return settled(3), nil
			}
			return fencedSet, nil
		})
		if resp := h.call(t, path, req); !resp.Allowed || len(resp.Warnings) > 0 {
			t.Errorf("%s: allowed is %v, warnings %q", path, resp.Allowed, resp.Warnings)
		}
	}
}

func TestAScaleUpThatComesTooLateIsTold(t *testing.T) {
	const gone = "pvc-pruner deleted claims of the ordinals 3, 4 at 2026-03-01T11:59:00Z: those begin with empty volumes"
	summary := `{"at":"2026-03-01T11:59:00Z","ordinals":[3,4,7],"claims":3,"bytes":3}`
	for name, tt := range map[string]struct {
		summary string
		to      int32
		want    []string
	}{
		"up over them":     {summary, 6, []string{gone}},
		"up over one":      {summary, 4, []string{strings.Replace(gone, "3, 4", "3", 1)}},
		"long ago":         {strings.Replace(summary, "T11:59", "T09:59", 1), 6, nil},
		"never":            {"", 6, nil},
		"what is not ours": {"{", 6, nil},
		"down":             {summary, 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			set := settled(3)
			if tt.summary != "" {
				set = with(set, "last-prune", tt.summary)
			}
			live(h, func() (*appsv1.StatefulSet, error) { return set, nil })
			for path, req := range map[string]admissionv1.AdmissionRequest{
				webhook.ScalePath:    scaleRequest(t, "db", 3, tt.to),
				webhook.ValidatePath: update(t, "jane", set, scaled(set, tt.to)),
			} {
				if diff := cmp.Diff(tt.want, h.call(t, path, req).Warnings, equateEmpty); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
		})
	}
}
