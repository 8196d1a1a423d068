package policy

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
