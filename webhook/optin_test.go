package webhook_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	const (
		delays    = `accepted are durations such as "0s", "30m", "36h", "1h30m", "7d" or "2w" (units w d h m s ms), from 0s up to 3650d`
		templates = `accepted are names of volumeClaimTemplates, each once, separated by commas without spaces, such as "data,wal"`
		classes   = `accepted is the name of a VolumeSnapshotClass`
		noControl = ` is not an annotation of pvc-pruner on a StatefulSet; accepted are: pvc-pruner.io/enabled, pvc-pruner.io/delay, pvc-pruner.io/scope, ` +
			`pvc-pruner.io/scale-to-zero, pvc-pruner.io/stale-volumes, pvc-pruner.io/templates, pvc-pruner.io/dry-run, pvc-pruner.io/paused, pvc-pruner.io/snapshot-class`
	)
	bad := func(key, value, accepted string) string {
		return `pvc-pruner.io/` + key + `: "` + value + `" is not accepted; ` + accepted
	}
	switched := func(key, value string) string { return bad(key, value, `accepted are "false" and "true"`) }
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet
		want         string // "": it is accepted
	}{
		"enabled in capitals":      {nil, db(1, "enabled", "TRUE"), switched("enabled", "TRUE")},
		"enabled with a space":     {nil, db(1, "enabled", " true"), switched("enabled", " true")},
		"enabled empty":            {nil, db(1, "enabled", ""), switched("enabled", "")},
		"enabled as a number":      {nil, db(1, "enabled", "1"), switched("enabled", "1")},
		"paused in other words":    {nil, db(1, "paused", "yes"), switched("paused", "yes")},
		"dry-run as kubectl says":  {nil, db(1, "dry-run", "server"), switched("dry-run", "server")},
		"a delay without a unit":   {nil, db(1, "delay", "10"), bad("delay", "10", delays)},
		"a negative delay":         {nil, db(1, "delay", "-1m"), bad("delay", "-1m", delays)},
		"an empty delay":           {nil, db(1, "delay", ""), bad("delay", "", delays)},
		"a delay of an age":        {nil, db(1, "delay", "999999w"), bad("delay", "999999w", delays)},
		"an unknown scope":         {nil, db(1, "scope", "some"), bad("scope", "some", `accepted are "scaled-down" and "all"`)},
		"an unknown scale-to-zero": {nil, db(1, "scale-to-zero", "true"), bad("scale-to-zero", "true", `accepted are "keep" and "prune"`)},
		"an unknown stale-volumes": {nil, db(1, "stale-volumes", "no"), bad("stale-volumes", "no", `accepted are "reuse" and "forbid"`)},
		"templates with a space":   {nil, db(1, "templates", "data, wal"), bad("templates", "data, wal", templates)},
		"a template twice":         {nil, db(1, "templates", "data,data"), bad("templates", "data,data", templates)},
		"no template":              {nil, db(1, "templates", ""), bad("templates", "", templates)},
		"a class that is no name":  {nil, db(1, "snapshot-class", "Fast One"), bad("snapshot-class", "Fast One", classes)},
		"a misspelt key":           {nil, db(1, "dely", "1m"), "pvc-pruner.io/dely" + noControl},
		"the prefix alone":         {nil, db(1, "", "1m"), "pvc-pruner.io/" + noControl},
		"the claim's key":          {nil, db(1, "keep", "true"), "pvc-pruner.io/keep" + noControl},
		"two at once":              {nil, db(1, "enabled", "yes", "paused", "no"), switched("enabled", "yes") + "; " + switched("paused", "no")},
		"a quote, quoted":          {nil, db(1, "scope", `"all"`), bad("scope", `\"all\"`, `accepted are "scaled-down" and "all"`)},

		"all controls as they should be": {nil, db(1, "enabled", "true", "delay", "1w2d", "scope", "all", "scale-to-zero", "prune",
			"stale-volumes", "forbid", "templates", "data,wal", "dry-run", "true", "paused", "true", "snapshot-class", "fast"), ""},
		"all controls at their defaults": {nil, db(1, "enabled", "false", "delay", "10m", "scope", "scaled-down", "scale-to-zero", "keep",
			"stale-volumes", "reuse", "dry-run", "false", "paused", "false"), ""},
		"an odd one that was stored before":       {db(3, "enabled", "yes"), db(2, "enabled", "yes"), ""},
		"a misspelt one that was stored before":   {db(3, "dely", "1m"), db(3, "dely", "1m", "paused", "true"), ""},
		"an odd one that changes to another":      {db(3, "enabled", "yes"), db(3, "enabled", "on"), switched("enabled", "on")},
		"an odd one that is put right":            {db(3, "enabled", "yes"), db(3, "enabled", "true"), ""},
		"an odd one that is taken away":           {db(3, "dely", "1m"), db(3), ""},
		"a second odd one beside one as before":   {db(3, "enabled", "yes"), db(3, "enabled", "yes", "paused", "no"), switched("paused", "no")},
		"one that was right before and turns odd": {db(3, "enabled", "true"), db(3, "enabled", "yes"), switched("enabled", "yes")},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			permit(h, true, nil)
			resp := h.call(t, webhook.ValidatePath, request(t, test.stored, test.sent))
			if test.want == "" {
				if !resp.Allowed {
					t.Errorf("refused: %v", resp.Result)
				}
				return
			}
			want := &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: test.want}
			if diff := cmp.Diff(want, resp.Result); diff != "" || resp.Allowed {
				t.Errorf("allowed is %v, result differs (-want +got):\n%s", resp.Allowed, diff)
			}
		})
	}
}

func TestWhoSetsAControlMustBeAllowedToDeleteClaims(t *testing.T) {
	idle := settled(3)
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet
		keys         string // that need the right; "": nobody is asked
	}{
		"a creation that opts in":               {nil, db(3, "enabled", "true"), "pvc-pruner.io/enabled"},
		"a creation that opts out":              {nil, db(3, "enabled", "false"), ""},
		"opting in":                             {db(3), db(3, "enabled", "true"), "pvc-pruner.io/enabled"},
		"opting in with a delay":                {db(3), db(3, "enabled", "true", "delay", "0s"), "pvc-pruner.io/enabled, pvc-pruner.io/delay"},
		"another delay":                         {idle, with(idle, "delay", "0s"), "pvc-pruner.io/delay"},
		"taking a delay away":                   {with(idle, "delay", "9d"), idle, "pvc-pruner.io/delay"},
		"un-pausing":                            {with(idle, "paused", "true"), idle, "pvc-pruner.io/paused"},
		"ending a dry run":                      {with(idle, "dry-run", "true"), idle, "pvc-pruner.io/dry-run"},
		"a delay in advance, while opted out":   {db(3), db(3, "delay", "0s"), "pvc-pruner.io/delay"},
		"pausing":                               {idle, with(idle, "paused", "true"), ""},
		"opting out":                            {idle, with(idle, "enabled", "false"), ""},
		"opting out by removal":                 {idle, without(idle, "enabled"), ""},
		"opting out and taking all away":        {with(idle, "delay", "9d"), without(with(idle, "delay", "9d"), "enabled", "delay"), ""},
		"opting out with another delay left":    {idle, with(idle, "enabled", "false", "delay", "0s"), "pvc-pruner.io/delay"},
		"taking away a key that means nothing":  {with(idle, "dely", "9d"), idle, "pvc-pruner.io/dely"},
		"a scale-down":                          {idle, scaled(idle, 1), ""},
		"forged bookkeeping, which has no sway": {idle, with(idle, "prior-replicas", "9"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			asked := permit(h, true, nil)
			if resp := h.call(t, webhook.ValidatePath, fromJane(t, test.stored, test.sent)); !resp.Allowed {
				t.Errorf("refused to one who may delete claims: %v", resp.Result)
			}
			var want []authorizationv1.SubjectAccessReviewSpec
			if test.keys != "" {
				want = []authorizationv1.SubjectAccessReviewSpec{janesReview}
			}
			if diff := cmp.Diff(want, *asked); diff != "" {
				t.Errorf("questions differ (-want +got):\n%s", diff)
			}
			h = newHooks(t)
			permit(h, false, nil)
			checkReview(t, h.call(t, webhook.ValidatePath, fromJane(t, test.stored, test.sent)), test.keys != "", http.StatusForbidden,
				"jane may not set "+test.keys+": that needs the right to delete PersistentVolumeClaims in namespace default, because our annotations decide what is deleted")
			h = newHooks(t)
			permit(h, true, errors.New("no answer"))
			checkReview(t, h.call(t, webhook.ValidatePath, fromJane(t, test.stored, test.sent)), test.keys != "", http.StatusInternalServerError,
				"cannot tell whether jane may delete PersistentVolumeClaims in namespace default, try again: no answer")
		})
	}
}

func TestAReviewThatIsNotAnsweredRefusesInTime(t *testing.T) {
	for name, test := range map[string]struct {
		stored, sent      *appsv1.StatefulSet
		wait, takes       time.Duration
		allowedAllTheSame bool
	}{
		"opting in":                             {stored: db(3), sent: settled(3), wait: 5 * time.Second, takes: 3 * time.Second},
		"a creation that opts in":               {sent: db(3, "enabled", "true"), wait: 5 * time.Second, takes: 3 * time.Second},
		"opting in, asked by one in a hurry":    {stored: db(3), sent: settled(3), wait: 2 * time.Second, takes: 1600 * time.Millisecond},
		"pausing, for which nobody is asked":    {stored: settled(3), sent: settled(3, "paused", "true"), wait: 5 * time.Second, allowedAllTheSame: true},
		"opting out, for which nobody is asked": {stored: settled(3), sent: db(3), wait: 5 * time.Second, allowedAllTheSame: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHooks(t)
				h.api = silent(t)
				h.set(t)
				began := time.Now()
				resp := h.callWithin(t, test.wait, webhook.ValidatePath, request(t, test.stored, test.sent))
				if took := time.Since(began).Truncate(100 * time.Millisecond); took != test.takes || resp.Allowed != test.allowedAllTheSame {
					t.Errorf("allowed is %v after %s, want it after %s", resp.Allowed, took, test.takes)
				}
			})
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
	req := request(t, stored, sent)
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
	case needed && (resp.Result.Code != code || resp.Result.Message != message):
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
