package policy

import (
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReplicasManager is the field manager that last set spec.replicas, "" where the
// object does not tell. It answers "who scaled this set?" as well as Kubernetes can.
func ReplicasManager(set *appsv1.StatefulSet) string {
	var manager string
	var latest time.Time
	for i := range set.ManagedFields {
		f := &set.ManagedFields[i]
		if f.FieldsV1 == nil || f.Time == nil || f.Time.Time.Before(latest) {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Spec["f:replicas"]; ok {
			manager, latest = f.Manager, f.Time.Time
		}
	}
	return manager
}

// ManagedBy warns of a set that another controller owns, in one line; "" where none does.
func ManagedBy(set *appsv1.StatefulSet) string {
	owner := metav1.GetControllerOf(set)
	if owner == nil {
		return ""
	}
	return fmt.Sprintf("%s %s owns this StatefulSet and may scale it or delete its claims in ways of its own: opt in only what you scale yourself",
		owner.Kind, shortened(owner.Name))
}

// shortened leaves room for the rest of a warning, which must not be longer than 256 bytes.
func shortened(name string) string {
	const room = 63
	if len(name) <= room {
		return name
	}
	return name[:room] + "..."
}
