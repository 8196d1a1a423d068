package webhook

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// bookkeeper answers the mutating webhook: it puts the bookkeeping into the object
// that belongs there, whatever the request carries in its place.
type bookkeeper struct {
	self     string
	defaults policy.Controls
	now      func() time.Time
}

// Handle implements admission.Handler.
func (b *bookkeeper) Handle(_ context.Context, req admission.Request) admission.Response {
	stored, updated, err := readSets(req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if req.UserInfo.Username == b.self {
		return b.stamp(stored, updated)
	}
	want, err := b.bookkeeping(stored, updated, b.now())
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	resp := admission.Patched("", annotationsPatch(updated, want)...)
	if foreign := b.foreign(stored, updated, want); len(foreign) > 0 {
		resp = resp.WithWarnings(fit("pvc-pruner ignored ", foreign, int64(len(foreign)), ": written by pvc-pruner alone"))
	}
	return resp
}

// bookkeeping returns the bookkeeping annotations that belong into the object of a request.
func (b *bookkeeper) bookkeeping(stored, updated *appsv1.StatefulSet, at time.Time) (map[string]string, error) {
	if stored == nil {
		return policy.OnCreate(updated).Annotations()
	}
	return policy.OnUpdate(stored, updated, b.defaults, at).Annotations()
}

// stamp ends a fence that the pruner puts up by the clock of those who enforce it, so
// that they agree on the time. The rest of what the pruner writes stays as it is.
func (b *bookkeeper) stamp(stored, updated *appsv1.StatefulSet) admission.Response {
	value, ok, err := policy.Stamp(stored, updated, b.now())
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if !ok {
		return admission.Allowed("")
	}
	return admission.Patched("", jsonpatch.NewOperation("replace", "/metadata/annotations/"+escape(policy.KeyFence), value))
}

// annotationsPatch turns the bookkeeping annotations of set into want, and touches
// nothing else.
func annotationsPatch(set *appsv1.StatefulSet, want map[string]string) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	if set.Annotations == nil && len(want) > 0 {
		ops = append(ops, jsonpatch.NewOperation("add", "/metadata/annotations", map[string]string{}))
	}
	for _, key := range slices.Sorted(slices.Values(policy.BookkeepingKeys())) {
		path := "/metadata/annotations/" + escape(key)
		value, wanted := want[key]
		sent, present := set.Annotations[key]
		switch {
		case wanted && (!present || sent != value):
			ops = append(ops, jsonpatch.NewOperation("add", path, value)) // replaces what is there
		case !wanted && present:
			ops = append(ops, jsonpatch.NewOperation("remove", path, nil))
		}
	}
	return ops
}

// escape writes a key as a JSON pointer's token (RFC 6901).
func escape(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
