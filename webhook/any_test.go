package webhook_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/pvc-pruner/pvc-pruner/webhook"
)

// anySet is db with any count and start, and any mixture of annotations, of which none
// is a fence that stands.
func anySet(r *rapid.T) *appsv1.StatefulSet {
	set := db(rapid.Int32Range(0, 9).Draw(r, "replicas"))
	if rapid.Bool().Draw(r, "moved") {
		set = startingAt(rapid.Int32Range(0, 3).Draw(r, "start"))(set)
	}
	number := rapid.SampledFrom([]string{"0", "3", "5", "9", "-1", "05", "x"})
	for _, a := range []struct {
		key    string
		values *rapid.Generator[string]
	}{
		{"enabled", rapid.SampledFrom([]string{"true", "true", "true", "false", "yes"})},
		{"scope", rapid.SampledFrom([]string{"all", "scaled-down", "some"})},
		{"scale-to-zero", rapid.SampledFrom([]string{"prune", "keep"})},
		{"delay", rapid.SampledFrom([]string{"0s", "1h", "soon"})},
		{"templates", rapid.SampledFrom([]string{"data", "wal", "data,wal", ","})},
		{"paused", rapid.SampledFrom([]string{"true", "false"})},
		{"dry-run", rapid.SampledFrom([]string{"true", "false"})},
		{"snapshot-class", rapid.Just("fast")},
		{"prior-replicas", number},
		{"target-replicas", number},
		{"scaled-down-at", rapid.SampledFrom([]string{"2026-03-01T11:55:00Z", "2026-03-01T12:00:00Z", "yesterday"})},
		{"record", rapid.Map(rapid.Int64Range(2, 5), func(g int64) string { return fmt.Sprintf(`{"uid":"uid-1","start":0,"generation":%d}`, g) })},
		{"fence", rapid.SampledFrom([]string{"odd", `{"from":0,"holder":"x","until":"2026-03-01T12:00:00Z"}`})},
		{"last-prune", rapid.Just("{}")},
	} {
		if rapid.Bool().Draw(r, a.key) {
			set = with(set, a.key, a.values.Draw(r, a.key))
		}
	}
	return set
}

func TestWhateverIsStoredAndSentTheAnswerTouchesBookkeepingAloneAndIsFinal(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := newHooks(t)
		permit(h, true, nil)
		sent := anySet(r)
		var stored *appsv1.StatefulSet
		if rapid.Bool().Draw(r, "update") {
			stored = anySet(r)
		}
		req := request(t, stored, sent)
		resp := h.call(t, webhook.MutatePath, req)
		got := applied(t, req.Object.Raw, resp)
		if diff := cmp.Diff(unrelated(t, req.Object.Raw), unrelated(t, got)); diff != "" {
			r.Errorf("something else changed:\n%s", diff)
		}
		checkFit(r, resp.Warnings)
		req.Object = runtime.RawExtension{Raw: got}
		if again := h.call(t, webhook.MutatePath, req); len(again.Patch) > 0 || len(again.Warnings) > 0 {
			r.Errorf("asked again about its own answer, it answers %s %v", again.Patch, again.Warnings)
		}
		resp = h.call(t, webhook.ValidatePath, req)
		if !resp.Allowed && resp.Result.Code != 403 {
			r.Errorf("the answer is %v", resp.Result)
		}
		checkFit(r, resp.Warnings)
	})
}
