package policy

import (
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// Limits of a fence, on the clock of whoever holds it.
const (
	// FenceLifetime is how long a fence stands from the moment at which it was written.
	FenceLifetime = 60 * time.Second
	// FenceMargin before its end nothing more is deleted: a DELETE that is under way then
	// still lands behind the fence, and clocks may differ by as much.
	FenceMargin = 15 * time.Second
)

// Fence stands on a StatefulSet while its claims are being deleted. As long as it
// stands, no count is accepted whose range contains an ordinal behind it: a pod that
// starts on a claim which is being deleted loses its data at its next restart.
type Fence struct {
	// From is the first ordinal behind the fence.
	From int64 `json:"from"`
	// Holder is the nonce of the process that deletes.
	Holder string `json:"holder"`
	// Until is when the fence ends by itself, on the clock of those who enforce it.
	Until time.Time `json:"until,omitzero"`
}

// ReadFence reads the fence of a stored StatefulSet; nil where none stands. What is
// malformed is none: only pvc-pruner writes it, and a fence that it cannot read back it
// does not delete behind either.
func ReadFence(annotations map[string]string) *Fence {
	value := annotations[KeyFence]
	var f Fence
	if value == "" || json.Unmarshal([]byte(value), &f) != nil || f.Holder == "" {
		return nil
	}
	return &f
}

// Encode is the value of the fence annotation.
func (f Fence) Encode() (string, error) {
	f.Until = f.Until.UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("encode fence: %w", err)
	}
	return string(data), nil
}

// Stands says whether the fence has not ended yet.
func (f *Fence) Stands(now time.Time) bool { return f != nil && now.Before(f.Until) }

// Crosses says whether a StatefulSet of this first ordinal and count has an ordinal
// behind the fence.
func (f *Fence) Crosses(start, replicas int32) bool {
	return replicas > 0 && int64(start)+int64(replicas) > f.From
}

// FenceFor is the fence for a plan: everything above its current range is behind it.
func FenceFor(p Plan, holder string) Fence {
	from, _ := p.Range()
	return Fence{From: from, Holder: holder}
}

// Stamp ends the fence that an update puts up, counted from now on the clock of those
// who enforce it, and returns the annotation's value; ok is false where the update puts
// up none.
func Stamp(stored, updated *appsv1.StatefulSet, now time.Time) (value string, ok bool, err error) {
	if updated.Annotations[KeyFence] == "" || stored != nil && stored.Annotations[KeyFence] == updated.Annotations[KeyFence] {
		return "", false, nil
	}
	f := ReadFence(updated.Annotations)
	if f == nil {
		return "", false, fmt.Errorf("%s: %q is no fence", KeyFence, updated.Annotations[KeyFence])
	}
	f.Until = now.Add(FenceLifetime)
	value, err = f.Encode()
	return value, err == nil, err
}

// ControlsChanged says whether an update changes a control annotation.
func ControlsChanged(before, after map[string]string) bool {
	for _, key := range ControlKeys() {
		old, had := before[key]
		value, has := after[key]
		if had != has || old != value {
			return true
		}
	}
	return false
}
