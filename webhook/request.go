package webhook

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// readSets decodes the StatefulSet of a request and the one that is stored; stored is
// nil on CREATE.
func readSets(req admission.Request) (stored, updated *appsv1.StatefulSet, err error) {
	if updated, err = decode[appsv1.StatefulSet](req.Object); err != nil {
		return nil, nil, fmt.Errorf("decode object: %w", err)
	}
	if len(req.OldObject.Raw) == 0 {
		return nil, updated, nil
	}
	if stored, err = decode[appsv1.StatefulSet](req.OldObject); err != nil {
		return nil, nil, fmt.Errorf("decode oldObject: %w", err)
	}
	if req.SubResource == "status" {
		// The registry does so too, but only after the mutating webhooks. A count that is
		// never stored must not be accounted for: claims above the real one would go.
		updated.Spec = stored.Spec
	}
	return stored, updated, nil
}

func decode[T any](raw runtime.RawExtension) (*T, error) {
	out := new(T)
	return out, json.Unmarshal(raw.Raw, out)
}
