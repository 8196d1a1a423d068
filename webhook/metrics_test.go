package webhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pvc-pruner/pvc-pruner/webhook"
)

func TestAnswersAreCountedByEndpointAndDecision(t *testing.T) {
	h := newHooks(t)
	permit(h, true, nil)
	fenced := with(pending(5, 3), "fence", standing(t, now.Add(time.Minute)))
	live(h, func() (*appsv1.StatefulSet, error) { return fenced, nil })
	garbage := admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(`[]`)}}
	dryRun := scaleRequest(t, "db", 3, 5)
	dryRun.DryRun = new(true)

	h.call(t, webhook.MutatePath, create(t, db(1, "enabled", "true")))
	h.call(t, webhook.MutatePath, create(t, db(1)))
	h.call(t, webhook.MutatePath, garbage)
	h.call(t, webhook.ValidatePath, create(t, db(1, "enabled", "true")))
	h.call(t, webhook.ValidatePath, create(t, db(1, "enabled", "yes")))
	h.call(t, webhook.ValidatePath, garbage)
	h.call(t, webhook.ScalePath, scaleRequest(t, "db", 3, 2))
	h.call(t, webhook.ScalePath, dryRun)

	name := "pvc_pruner_admission_requests_total"
	want := `# HELP ` + name + ` Admission requests answered, by endpoint and decision: allowed, denied, fenced (refused while claims are being deleted, the dry runs of the pruner included), or error for those that could not be judged.
# TYPE ` + name + ` counter
` + name + `{decision="allowed",endpoint="/mutate-apps-v1-statefulset"} 2
` + name + `{decision="error",endpoint="/mutate-apps-v1-statefulset"} 1
` + name + `{decision="allowed",endpoint="/validate-apps-v1-statefulset"} 1
` + name + `{decision="denied",endpoint="/validate-apps-v1-statefulset"} 1
` + name + `{decision="error",endpoint="/validate-apps-v1-statefulset"} 1
` + name + `{decision="allowed",endpoint="/validate-apps-v1-statefulset-scale"} 1
` + name + `{decision="fenced",endpoint="/validate-apps-v1-statefulset-scale"} 1
`
	if err := testutil.GatherAndCompare(h.registry, strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(h.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, problems of style: %v", err, problems)
	}
}

func TestAnswersAreTimedByEndpoint(t *testing.T) {
	h := newHooks(t)
	h.call(t, webhook.MutatePath, create(t, db(1)))
	h.call(t, webhook.MutatePath, create(t, db(1)))
	h.call(t, webhook.ValidatePath, create(t, db(1)))
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "pvc_pruner_admission_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
		}
	}
	if got[webhook.MutatePath] != 2 || got[webhook.ValidatePath] != 1 || len(got) != 2 {
		t.Errorf("timed answers are %v", got)
	}
}

func TestSetupNeedsAllItsParts(t *testing.T) {
	if err := webhook.Setup(&hooks{}, webhook.Options{}); err == nil {
		t.Error("an empty set of options is accepted")
	}
}
