package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
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
	const foreignRecord = `{"uid":"other","start":0,"generation":4}`
	fence := `{"from":3,"holder":"x","until":"2026-03-01T12:01:00Z"}`
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet
		want         map[string]string // bookkeeping afterwards, without prefix
		ignored      string            // what the only warning names, "" for none
	}{
		"a creation that opts in knows its own count": {
			nil, db(3, "enabled", "true"), map[string]string{"prior-replicas": "3"}, "",
		},
		"a creation of an opted-in set of zero knows that": {
			nil, db(0, "enabled", "true"), map[string]string{"prior-replicas": "0"}, "",
		},
		"a creation that does not opt in has none": {nil, db(3), nil, ""},
		"a creation that opts out has none":        {nil, db(3, "enabled", "false"), nil, ""},
		"a creation from a backup forgets what it carries": {
			nil, pending(5, 2, "fence", fence, "last-prune", "{}"),
			map[string]string{"prior-replicas": "2"},
			"prior-replicas, pvc-pruner.io/target-replicas, pvc-pruner.io/scaled-down-at, pvc-pruner.io/record, pvc-pruner.io/fence, pvc-pruner.io/last-prune",
		},
		"a creation that does not opt in forgets it too": {
			nil, without(settled(3), "enabled"), nil, "prior-replicas, pvc-pruner.io/record",
		},
		"a scale-down starts a window": {
			idle, scaled(idle, 3),
			map[string]string{"prior-replicas": "5", "target-replicas": "3", "scaled-down-at": nowText, "record": record(5)},
			"",
		},
		"a further scale-down starts it again and forgets nothing": {
			pending(5, 3), scaled(pending(5, 3), 2),
			map[string]string{"prior-replicas": "5", "target-replicas": "2", "scaled-down-at": nowText, "record": `{"uid":"uid-1","start":0,"generation":5,"scaledDownAt":"2026-03-01T11:55:00Z"}`},
			"",
		},
		"an undo ends it": {
			pending(5, 3), scaled(pending(5, 3), 5), map[string]string{"prior-replicas": "5", "record": record(5)}, "",
		},
		"half an undo starts it again": {
			pending(5, 3), scaled(pending(5, 3), 4),
			map[string]string{"prior-replicas": "5", "target-replicas": "4", "scaled-down-at": nowText, "record": `{"uid":"uid-1","start":0,"generation":5,"scaledDownAt":"2026-03-01T11:55:00Z"}`},
			"",
		},
		"a scale-up is accounted for": {
			idle, scaled(idle, 7), map[string]string{"prior-replicas": "7", "record": record(5)}, "",
		},
		"a rollout changes nothing": {pending(5, 3), rolledOut(pending(5, 3)), bookkeepingOf(rawSet(pending(5, 3))), ""},
		"a replacement that drops the bookkeeping changes nothing": {
			idle, scaled(db(5, "enabled", "true"), 3),
			map[string]string{"prior-replicas": "5", "target-replicas": "3", "scaled-down-at": nowText, "record": record(5)},
			"",
		},
		"one that drops all annotations opts out": {pending(5, 3), db(3), nil, ""},
		"one that was built on an older version is not called forged": {
			atVersion(idle, "8"), atVersion(with(idle, "prior-replicas", "4"), "7"),
			map[string]string{"prior-replicas": "5", "record": record(4)},
			"",
		},
		"a forged count is overwritten": {
			idle, with(idle, "prior-replicas", "50"), map[string]string{"prior-replicas": "5", "record": record(4)}, "prior-replicas",
		},
		"a forged window is taken away": {
			idle, with(idle, "target-replicas", "1", "scaled-down-at", "2020-01-01T00:00:00Z"),
			map[string]string{"prior-replicas": "5", "record": record(4)},
			"target-replicas, pvc-pruner.io/scaled-down-at",
		},
		"a window that is right but for its age is made new": {
			idle, scaled(with(idle, "target-replicas", "3", "scaled-down-at", "2026-03-01T11:00:00Z", "record", record(5)), 3),
			map[string]string{"prior-replicas": "5", "target-replicas": "3", "scaled-down-at": nowText, "record": record(5)},
			"scaled-down-at",
		},
		"a forged summary is taken away": {
			idle, with(idle, "last-prune", "{}"), map[string]string{"prior-replicas": "5", "record": record(4)}, "last-prune",
		},
		"a summary stays": {
			with(idle, "last-prune", "{}"), idle,
			map[string]string{"prior-replicas": "5", "record": record(4), "last-prune": "{}"},
			"",
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
		"a scale to zero starts a window, so that leaving it is understood": {
			settled(3), scaled(settled(3), 0),
			map[string]string{"prior-replicas": "3", "target-replicas": "0", "scaled-down-at": nowText, "record": record(5)},
			"",
		},
		"a move alone ends a window": {
			pending(5, 3), startingAt(2)(pending(5, 3)),
			map[string]string{"prior-replicas": "3", "record": `{"uid":"uid-1","start":2,"generation":5}`},
			"",
		},
		"a record of another object arms nothing": {
			with(pending(5, 3), "record", foreignRecord), scaled(with(pending(5, 3), "record", foreignRecord), 2),
			map[string]string{"prior-replicas": "3", "target-replicas": "2", "scaled-down-at": nowText, "record": record(5)},
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
			req := request(t, test.stored, test.sent)
			resp := h.call(t, webhook.MutatePath, req)
			got := applied(t, req.Object.Raw, resp)
			if diff := cmp.Diff(test.want, bookkeepingOf(got), equateEmpty); diff != "" {
				t.Errorf("bookkeeping differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(ignoring(test.ignored), resp.Warnings, equateEmpty); diff != "" {
				t.Errorf("warnings differ (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(unrelated(t, req.Object.Raw), unrelated(t, got)); diff != "" {
				t.Errorf("something else changed:\n%s", diff)
			}
			req.Object = runtime.RawExtension{Raw: got}
			if again := h.call(t, webhook.MutatePath, req); len(again.Patch) > 0 || len(again.Warnings) > 0 {
				t.Errorf("asked again about its own answer, it answers %s %v", again.Patch, again.Warnings)
			}
		})
	}
}

// ignoring is the warning that bookkeeping in a request had no effect.
func ignoring(keys string) []string {
	if keys == "" {
		return nil
	}
	return []string{"pvc-pruner ignored pvc-pruner.io/" + keys + ": written by pvc-pruner alone"}
}

// request is one by a user that makes sent, or turns stored into it.
func request(t *testing.T, stored, sent *appsv1.StatefulSet) admissionv1.AdmissionRequest {
	t.Helper()
	if stored == nil {
		return create(t, sent)
	}
	return update(t, "user", stored, sent)
}

func rolledOut(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	set = set.DeepCopy()
	set.Spec.Template.Labels = map[string]string{"version": "2"}
	return set
}

func atVersion(set *appsv1.StatefulSet, version string) *appsv1.StatefulSet {
	set = set.DeepCopy()
	set.ResourceVersion = version
	return set
}

// The registry puts the stored spec back, but only after the mutating webhooks.
func TestAStatusUpdateChangesNoCount(t *testing.T) {
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet
		want         map[string]string
		ignored      string
	}{
		"a higher count":     {settled(3), scaled(settled(3), 50), map[string]string{"prior-replicas": "3", "record": record(4)}, ""},
		"a lower count":      {settled(3), scaled(settled(3), 1), map[string]string{"prior-replicas": "3", "record": record(4)}, ""},
		"another range":      {pending(5, 3), startingAt(4)(pending(5, 3)), bookkeepingOf(rawSet(pending(5, 3))), ""},
		"forged bookkeeping": {settled(3), with(settled(3), "prior-replicas", "50"), map[string]string{"prior-replicas": "3", "record": record(4)}, "prior-replicas"},
		"dropped annotations, all but the switch": {
			pending(5, 3), scaled(db(3, "enabled", "true"), 0), bookkeepingOf(rawSet(pending(5, 3))), "",
		},
		"opting out": {pending(5, 3), without(pending(5, 3), "enabled"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := update(t, "user", test.stored, test.sent)
			req.SubResource = "status"
			resp := newHooks(t).call(t, webhook.MutatePath, req)
			got := applied(t, req.Object.Raw, resp)
			if diff := cmp.Diff(test.want, bookkeepingOf(got), equateEmpty); diff != "" {
				t.Errorf("bookkeeping differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(ignoring(test.ignored), resp.Warnings, equateEmpty); diff != "" {
				t.Errorf("warnings differ (-want +got):\n%s", diff)
			}
		})
	}
}

// After a webhook behind ours has changed the object, the API server asks us again, with
// our own answer in the object.
func TestAskedAgainWithinARequestTheLastCountHoldsAndNothingIsCalledForged(t *testing.T) {
	const later = "2026-03-01T12:00:02Z"
	since := `"scaledDownAt":"2026-03-01T11:55:00Z"}`
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet
		then         func(*appsv1.StatefulSet) *appsv1.StatefulSet
		want         map[string]string
	}{
		"a scale-down, with fewer left": {
			settled(5), scaled(settled(5), 3), toCount(2),
			map[string]string{"prior-replicas": "5", "target-replicas": "2", "scaled-down-at": later, "record": record(5)},
		},
		"a scale-down that is taken back": {
			settled(5), scaled(settled(5), 3), toCount(5), map[string]string{"prior-replicas": "5", "record": record(4)},
		},
		"a scale-down that becomes a scale-up": {
			settled(5), scaled(settled(5), 3), toCount(6), map[string]string{"prior-replicas": "6", "record": record(5)},
		},
		"a scale-down, and only a label changes": {
			settled(5), scaled(settled(5), 3), rolledOut,
			map[string]string{"prior-replicas": "5", "target-replicas": "3", "scaled-down-at": later, "record": record(5)},
		},
		"a scale-up that is limited": {
			settled(5), scaled(settled(5), 9), toCount(6), map[string]string{"prior-replicas": "6", "record": record(5)},
		},
		"an undo that is limited": {
			pending(5, 3), scaled(pending(5, 3), 5), toCount(4),
			map[string]string{"prior-replicas": "5", "target-replicas": "4", "scaled-down-at": later, "record": `{"uid":"uid-1","start":0,"generation":5,` + since},
		},
		"a shorter delay, and a scale-down": {
			pending(5, 3), with(pending(5, 3), "delay", "1m"), toCount(2),
			map[string]string{"prior-replicas": "5", "target-replicas": "2", "scaled-down-at": later, "record": `{"uid":"uid-1","start":0,"generation":5,` + since},
		},
		"a creation": {nil, db(3, "enabled", "true"), toCount(5), map[string]string{"prior-replicas": "5"}},
		"opting in":  {db(5), db(5, "enabled", "true"), toCount(3), map[string]string{"prior-replicas": "5", "target-replicas": "3", "scaled-down-at": later, "record": record(5)}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			clock := now
			h.clock = func() time.Time { return clock }
			h.set(t)
			req := request(t, test.stored, test.sent)
			var answered appsv1.StatefulSet
			if err := json.Unmarshal(applied(t, req.Object.Raw, h.call(t, webhook.MutatePath, req)), &answered); err != nil {
				t.Fatal(err)
			}
			clock = clock.Add(2 * time.Second)
			req.Object = raw(t, test.then(&answered))
			resp := h.call(t, webhook.MutatePath, req)
			if diff := cmp.Diff(test.want, bookkeepingOf(applied(t, req.Object.Raw, resp)), equateEmpty); diff != "" {
				t.Errorf("bookkeeping differs (-want +got):\n%s", diff)
			}
			if len(resp.Warnings) > 0 {
				t.Errorf("it warns of its own answer: %q", resp.Warnings)
			}
		})
	}
}

func toCount(replicas int32) func(*appsv1.StatefulSet) *appsv1.StatefulSet {
	return func(set *appsv1.StatefulSet) *appsv1.StatefulSet { return scaled(set, replicas) }
}

func TestFieldsThatNoTypeKnowsSurvive(t *testing.T) {
	for name, annotations := range map[string]string{
		"where bookkeeping is put in":    `{"pvc-pruner.io/enabled":"true","a/b~c":"x","a~1b":"y"}`,
		"where bookkeeping is taken out": `{"pvc-pruner.io/record":"x","a/b~c":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			object := `{"kind":"StatefulSet","metadata":{"name":"db","annotations":` + annotations + `,"future":{"x":[1,null,1e400]}},` +
				`"spec":{"replicas":3,"futureField":true,"big":12345678901234567890,"template":{"spec":{"futureAlso":{"k":"v"}}}}}`
			req := admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)}}
			got := applied(t, []byte(object), newHooks(t).call(t, webhook.MutatePath, req))
			if diff := cmp.Diff(unrelated(t, []byte(object)), unrelated(t, got)); diff != "" {
				t.Errorf("something else changed:\n%s", diff)
			}
		})
	}
}

func TestAnnotationsAreMadeWhereThereAreNone(t *testing.T) {
	for name, annotations := range map[string]string{"absent": ``, "null": `,"annotations":null`, "empty": `,"annotations":{}`} {
		t.Run(name, func(t *testing.T) {
			fence := with(db(3), "fence", `{"from":3,"holder":"x","until":"2026-03-01T12:01:00Z"}`) // what opting out leaves
			object := `{"metadata":{"name":"db","uid":"uid-1"` + annotations + `},"spec":{"replicas":3}}`
			req := update(t, "user", fence, db(3))
			req.Object = runtime.RawExtension{Raw: []byte(object)}
			got := applied(t, req.Object.Raw, newHooks(t).call(t, webhook.MutatePath, req))
			if diff := cmp.Diff(bookkeepingOf(rawSet(fence)), bookkeepingOf(got)); diff != "" {
				t.Errorf("bookkeeping differs (-want +got):\n%s", diff)
			}
		})
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

// applied applies the patch of an answer to the document that was sent.
func applied(t *testing.T, document []byte, resp *admissionv1.AdmissionResponse) []byte {
	t.Helper()
	if !resp.Allowed {
		t.Fatalf("refused: %v", resp.Result)
	}
	if len(resp.Patch) == 0 {
		return document
	}
	if resp.PatchType == nil || *resp.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Fatalf("the type of the patch is %v", resp.PatchType)
	}
	patch, err := jsonpatch.DecodePatch(resp.Patch)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch.Apply(document)
	if err != nil {
		t.Fatalf("patch %s: %v", resp.Patch, err)
	}
	return patched
}

// rawSet is a set as a document.
func rawSet(set *appsv1.StatefulSet) []byte {
	document, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	return document
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

// unrelated is a document without our bookkeeping, and numbers as they were written.
func unrelated(t *testing.T, document []byte) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
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
