package webhook_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
	"github.com/pvc-pruner/pvc-pruner/webhook"
)

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// record is the value of the record annotation of db at a generation.
func record(generation int) string {
	return `{"uid":"uid-1","start":0,"generation":` + strconv.Itoa(generation) + `}`
}

func TestBookkeepingFollowsFromTheStoredObjectAlone(t *testing.T) {
	idle := settled(5)
	const nowText = "2026-03-01T12:00:00Z"
	moved := settled(5)
	moved.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 2}
	fence := `{"from":3,"holder":"x","until":"2026-03-01T12:01:00Z"}`
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet
		want         map[string]string // bookkeeping afterwards, without prefix
		warning      string            // part of the only warning, "" for none
	}{
		"a creation that opts in knows its own count": {
			nil, db(3, "enabled", "true"), map[string]string{"prior-replicas": "3"}, "",
		},
		"a creation that does not opt in has none": {nil, db(3), nil, ""},
		"a creation from a backup forgets what it carries": {
			nil, pending(5, 2), map[string]string{"prior-replicas": "2"}, "prior-replicas",
		},
		"a scale-down starts a window": {
			idle, scaled(idle, 3),
			map[string]string{"prior-replicas": "5", "target-replicas": "3", "scaled-down-at": nowText, "record": record(5)},
			"",
		},
		"an undo ends it": {
			pending(5, 3), scaled(pending(5, 3), 5), map[string]string{"prior-replicas": "5", "record": record(5)}, "",
		},
		"a replacement that drops the bookkeeping changes nothing": {
			idle, scaled(db(5, "enabled", "true"), 3),
			map[string]string{"prior-replicas": "5", "target-replicas": "3", "scaled-down-at": nowText, "record": record(5)},
			"",
		},
		"a forged count is overwritten": {
			idle, with(idle, "prior-replicas", "50"), map[string]string{"prior-replicas": "5", "record": record(4)}, "prior-replicas",
		},
		"a forged window is taken away": {
			idle, with(idle, "target-replicas", "1", "scaled-down-at", "2020-01-01T00:00:00Z"),
			map[string]string{"prior-replicas": "5", "record": record(4)},
			"target-replicas",
		},
		"a forged fence is taken away": {
			idle, with(idle, "fence", fence), map[string]string{"prior-replicas": "5", "record": record(4)}, "fence",
		},
		"a fence stays": {
			with(idle, "fence", fence), without(with(idle, "fence", fence), "fence"),
			map[string]string{"prior-replicas": "5", "record": record(4), "fence": fence},
			"",
		},
		"opting out removes everything but a fence": {
			pending(5, 3, "fence", fence), with(pending(5, 3, "fence", fence), "enabled", "false"),
			map[string]string{"fence": fence},
			"",
		},
		"opting out by removal removes everything": {pending(5, 3), without(pending(5, 3), "enabled"), nil, ""},
		"opting in starts afresh": {
			db(5), db(5, "enabled", "true"), map[string]string{"prior-replicas": "5", "record": record(4)}, "",
		},
		"a moved range is never guessed across": {
			idle, scaled(moved, 3),
			map[string]string{"prior-replicas": "3", "record": `{"uid":"uid-1","start":2,"generation":5}`},
			"",
		},
		"leaving zero, what was kept stays kept": {
			pending(3, 0), scaled(pending(3, 0), 1), map[string]string{"prior-replicas": "1", "record": record(5)}, "",
		},
		"a shorter delay starts the window again": {
			pending(5, 3), with(pending(5, 3), "delay", "1m"),
			map[string]string{"prior-replicas": "5", "target-replicas": "3", "scaled-down-at": nowText, "record": `{"uid":"uid-1","start":0,"generation":4,"scaledDownAt":"2026-03-01T11:55:00Z"}`},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			req := create(t, "user", test.sent)
			if test.stored != nil {
				req = update(t, "user", test.stored, test.sent)
			}
			resp := h.call(t, webhook.MutatePath, req)
			got := applied(t, req.Object.Raw, resp)
			if diff := cmp.Diff(test.want, bookkeepingOf(got), equateEmpty); diff != "" {
				t.Errorf("bookkeeping differs (-want +got):\n%s", diff)
			}
			checkWarning(t, resp.Warnings, test.warning)
			if diff := cmp.Diff(unrelated(t, req.Object.Raw), unrelated(t, got)); diff != "" {
				t.Errorf("something else changed:\n%s", diff)
			}
			// The API server may ask again within one request.
			req.Object = runtime.RawExtension{Raw: got}
			if again := h.call(t, webhook.MutatePath, req); len(again.Patch) > 0 || len(again.Warnings) > 0 {
				t.Errorf("asked again, it answers %s %v", again.Patch, again.Warnings)
			}
		})
	}
}

func TestFieldsThatNoTypeKnowsSurvive(t *testing.T) {
	object := `{"kind":"StatefulSet","metadata":{"name":"db","annotations":{"pvc-pruner.io/enabled":"true","a/b~c":"x"},"future":{"x":[1,null]}},` +
		`"spec":{"replicas":3,"futureField":true,"template":{"spec":{"futureAlso":{"k":"v"}}}}}`
	req := admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)}}
	got := applied(t, []byte(object), newHooks(t).call(t, webhook.MutatePath, req))
	if diff := cmp.Diff(unrelated(t, []byte(object)), unrelated(t, got)); diff != "" {
		t.Errorf("something else changed:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"prior-replicas": "3"}, bookkeepingOf(got)); diff != "" {
		t.Errorf("bookkeeping differs:\n%s", diff)
	}
}

func TestOwnWritesStayAsTheyAreButForTheEndOfAFence(t *testing.T) {
	h := newHooks(t)
	idle := settled(5)
	if resp := h.call(t, webhook.MutatePath, update(t, self, idle, with(idle, "prior-replicas", "7"))); !resp.Allowed || len(resp.Patch) > 0 {
		t.Errorf("own write is answered %v %s", resp.Allowed, resp.Patch)
	}
	req := update(t, self, idle, with(idle, "fence", `{"from":3,"holder":"me"}`))
	want := `{"from":3,"holder":"me","until":"2026-03-01T12:01:00Z"}`
	if got := bookkeepingOf(applied(t, req.Object.Raw, h.call(t, webhook.MutatePath, req)))["fence"]; got != want {
		t.Errorf("fence is %s, want %s", got, want)
	}
	if resp := h.call(t, webhook.MutatePath, update(t, self, idle, with(idle, "fence", "nonsense"))); resp.Allowed {
		t.Error("a fence that cannot be read is accepted")
	}
}

func TestWhatCannotBeDecodedIsRefused(t *testing.T) {
	for _, path := range []string{webhook.MutatePath, webhook.ValidatePath} {
		req := admissionv1.AdmissionRequest{Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: []byte(`{"spec":{"replicas":"many"}}`)}}
		if resp := newHooks(t).call(t, path, req); resp.Allowed || resp.Result.Code != http.StatusBadRequest {
			t.Errorf("%s: %v, want a refusal with 400", path, resp.Result)
		}
	}
}

// applied applies the patch of an answer, of the few kinds that there are, to a document.
func applied(t *testing.T, document []byte, resp *admissionv1.AdmissionResponse) []byte {
	t.Helper()
	if !resp.Allowed {
		t.Fatalf("refused: %v", resp.Result)
	}
	if len(resp.Patch) == 0 {
		return document
	}
	var operations []struct {
		Op, Path string
		Value    any
	}
	var object map[string]any
	if err := json.Unmarshal(resp.Patch, &operations); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(document, &object); err != nil {
		t.Fatal(err)
	}
	metadata := object["metadata"].(map[string]any) //nolint:forcetypeassert // as in every object
	for _, o := range operations {
		if o.Path == "/metadata/annotations" {
			metadata["annotations"] = o.Value
			continue
		}
		annotations := metadata["annotations"].(map[string]any) //nolint:forcetypeassert // a patch of a missing part would be an error
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(o.Path, "/metadata/annotations/"))
		if _, present := annotations[key]; !present && o.Op != "add" {
			t.Fatalf("%s of the absent %s", o.Op, o.Path)
		}
		if annotations[key] = o.Value; o.Op == "remove" {
			delete(annotations, key)
		}
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bookkeepingOf returns the bookkeeping annotations of a document, without prefix.
func bookkeepingOf(document []byte) map[string]string {
	var set appsv1.StatefulSet
	if json.Unmarshal(document, &set) != nil {
		return nil
	}
	out := map[string]string{}
	for _, key := range policy.BookkeepingKeys() {
		if value, ok := set.Annotations[key]; ok {
			out[policy.Short(key)] = value
		}
	}
	return out
}

// unrelated is a document without our bookkeeping.
func unrelated(t *testing.T, document []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(document, &object); err != nil {
		t.Fatal(err)
	}
	metadata := object["metadata"].(map[string]any) //nolint:forcetypeassert // as in every object
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range policy.BookkeepingKeys() {
		delete(annotations, key)
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return object
}

func checkWarning(t *testing.T, warnings []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(warnings) > 0:
		t.Errorf("unexpected warnings %q", warnings)
	case want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], want)):
		t.Errorf("warnings are %q, want one that names %q", warnings, want)
	}
}
