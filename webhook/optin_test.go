package webhook_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/webhook"
)

// permit answers access reviews, and notes them.
func permit(h *hooks, allowed bool, err error) *[]authorizationv1.SubjectAccessReviewSpec {
	var asked []authorizationv1.SubjectAccessReviewSpec
	h.client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview) //nolint:forcetypeassert // by resource
		asked = append(asked, review.Spec)
		review.Status.Allowed = allowed
		return true, review, err
	})
	return &asked
}

func TestAnnotationsThatCannotBeUnderstoodAreRefusedWithWhatIsAccepted(t *testing.T) {
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet
		want         []string // parts of the message; nil: it is accepted
	}{
		"enabled in capitals":         {nil, db(1, "enabled", "TRUE"), []string{`pvc-pruner.io/enabled: "TRUE"`, `"false" and "true"`}},
		"enabled with a space":        {nil, db(1, "enabled", " true"), []string{`"false" and "true"`}},
		"enabled empty":               {nil, db(1, "enabled", ""), []string{`"false" and "true"`}},
		"enabled as a number":         {nil, db(1, "enabled", "1"), []string{`"false" and "true"`}},
		"a delay without a unit":      {nil, db(1, "delay", "10"), []string{"pvc-pruner.io/delay", `"7d"`}},
		"a negative delay":            {nil, db(1, "delay", "-1m"), []string{"pvc-pruner.io/delay"}},
		"an unknown scope":            {nil, db(1, "scope", "some"), []string{`"scaled-down" and "all"`}},
		"an unknown scale-to-zero":    {nil, db(1, "scale-to-zero", "true"), []string{`"keep" and "prune"`}},
		"an unknown stale-volumes":    {nil, db(1, "stale-volumes", "no"), []string{`"reuse" and "forbid"`}},
		"templates with a space":      {nil, db(1, "templates", "data, wal"), []string{"pvc-pruner.io/templates", `"data,wal"`}},
		"a misspelt key":              {nil, db(1, "dely", "1m"), []string{"pvc-pruner.io/dely is not an annotation", "pvc-pruner.io/delay"}},
		"the claim's key on the set":  {nil, db(1, "keep", "true"), []string{"pvc-pruner.io/keep is not an annotation"}},
		"two at once":                 {nil, db(1, "enabled", "yes", "paused", "no"), []string{"pvc-pruner.io/enabled", "pvc-pruner.io/paused"}},
		"one that was stored before":  {db(3, "enabled", "yes"), db(2, "enabled", "yes"), nil},
		"one that changes to another": {db(3, "enabled", "yes"), db(3, "enabled", "on"), []string{`"on" is not accepted`}},
		"one that is put right":       {db(3, "enabled", "yes"), db(3, "enabled", "true"), nil},
		"one that is taken away":      {db(3, "dely", "1m"), db(3), nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			permit(h, true, nil)
			req := create(t, "user", test.sent)
			if test.stored != nil {
				req = update(t, "user", test.stored, test.sent)
			}
			resp := h.call(t, webhook.ValidatePath, req)
			if resp.Allowed != (test.want == nil) {
				t.Fatalf("allowed is %v: %v", resp.Allowed, resp.Result)
			}
			for _, part := range test.want {
				if resp.Result.Code != http.StatusForbidden || !strings.Contains(resp.Result.Message, part) {
					t.Errorf("%d %q, want 403 and a message with %q", resp.Result.Code, resp.Result.Message, part)
				}
			}
		})
	}
}

func TestWhoSetsAControlMustBeAllowedToDeleteClaims(t *testing.T) {
	idle := settled(3)
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet
		asks         bool
	}{
		"a creation that opts in":               {nil, db(3, "enabled", "true"), true},
		"a creation that opts out":              {nil, db(3, "enabled", "false"), false},
		"opting in":                             {db(3), db(3, "enabled", "true"), true},
		"another delay":                         {idle, with(idle, "delay", "0s"), true},
		"taking a delay away":                   {with(idle, "delay", "9d"), idle, true},
		"un-pausing":                            {with(idle, "paused", "true"), idle, true},
		"ending a dry run":                      {with(idle, "dry-run", "true"), idle, true},
		"a delay in advance, while opted out":   {db(3), db(3, "delay", "0s"), true},
		"pausing":                               {idle, with(idle, "paused", "true"), false},
		"opting out":                            {idle, with(idle, "enabled", "false"), false},
		"opting out by removal":                 {idle, without(idle, "enabled"), false},
		"opting out and taking all away":        {with(idle, "delay", "9d"), without(with(idle, "delay", "9d"), "enabled", "delay"), false},
		"opting out with another delay left":    {idle, with(idle, "enabled", "false", "delay", "0s"), true},
		"a scale-down":                          {idle, scaled(idle, 1), false},
		"forged bookkeeping, which has no sway": {idle, with(idle, "prior-replicas", "9"), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			asked := permit(h, true, nil)
			if resp := h.call(t, webhook.ValidatePath, fromJane(t, test.stored, test.sent)); !resp.Allowed {
				t.Errorf("refused to one who may delete claims: %v", resp.Result)
			}
			var want []authorizationv1.SubjectAccessReviewSpec
			if test.asks {
				want = []authorizationv1.SubjectAccessReviewSpec{janesReview}
			}
			if diff := cmp.Diff(want, *asked); diff != "" {
				t.Errorf("questions differ (-want +got):\n%s", diff)
			}
			h = newHooks(t)
			permit(h, false, nil)
			checkReview(t, h.call(t, webhook.ValidatePath, fromJane(t, test.stored, test.sent)), test.asks, http.StatusForbidden, "jane may not set pvc-pruner.io/")
			h = newHooks(t)
			permit(h, true, errors.New("no answer"))
			checkReview(t, h.call(t, webhook.ValidatePath, fromJane(t, test.stored, test.sent)), test.asks, http.StatusInternalServerError, "try again")
		})
	}
}

// janesReview is the question whether jane may delete claims.
var janesReview = authorizationv1.SubjectAccessReviewSpec{
	User: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a", "b"}},
	ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: "default", Verb: "delete", Version: "v1", Resource: "persistentvolumeclaims",
	},
}

// fromJane is a request of hers; stored is nil for a creation.
func fromJane(t *testing.T, stored, sent *appsv1.StatefulSet) admissionv1.AdmissionRequest {
	t.Helper()
	req := create(t, "jane", sent)
	if stored != nil {
		req = update(t, "jane", stored, sent)
	}
	req.UserInfo = authenticationv1.UserInfo{
		Username: "jane", UID: "7", Groups: []string{"devs"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}},
	}
	return req
}

// checkReview checks the answer where the review did not say yes: it refuses if a review was needed.
func checkReview(t *testing.T, resp *admissionv1.AdmissionResponse, needed bool, code int32, message string) {
	t.Helper()
	switch {
	case resp.Allowed == needed:
		t.Errorf("allowed is %v", resp.Allowed)
	case needed && (resp.Result.Code != code || !strings.Contains(resp.Result.Message, message)):
		t.Errorf("%d %q, want %d and %q", resp.Result.Code, resp.Result.Message, code, message)
	}
}

func TestOwnRequestsNeedNoReview(t *testing.T) {
	h := newHooks(t)
	asked := permit(h, false, nil)
	if resp := h.call(t, webhook.ValidatePath, update(t, self, db(3), db(3, "enabled", "true"))); !resp.Allowed || len(*asked) > 0 {
		t.Errorf("allowed is %v, %d questions", resp.Allowed, len(*asked))
	}
}
