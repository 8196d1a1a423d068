package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Bookkeeping is what pvc-pruner remembers about a StatefulSet, in annotations on
// the StatefulSet itself. The zero value remembers nothing and arms nothing.
type Bookkeeping struct {
	// Prior is the replica count whose claims are accounted for: the highest since
	// the last completed prune. nil: nothing is known.
	Prior *int32
	// Window is the running undo window; nil while nothing is pending.
	Window *Window
	// Record says what Prior and Window are bound to; nil: to nothing yet.
	Record *Record
	// Fence and LastPrune are carried along as they are stored ("" where absent).
	Fence, LastPrune string
}

// Window is the undo window of a scale-down.
type Window struct {
	// Target is the replica count that the window runs for.
	Target int32
	// Since is when it began, in whole seconds.
	Since time.Time
}

// Record binds the bookkeeping to one object and one range of ordinals. A set
// that was recreated, restored or moved is another one, whatever its annotations say.
type Record struct {
	UID   types.UID `json:"uid"`
	Start int32     `json:"start"`
	// Generation is the metadata.generation up to which changes are accounted for.
	Generation int64 `json:"generation"`
	// ScaledDownAt is the earliest moment at which the first of the scale-downs that are
	// pending may have happened, RFC 3339, if it is not that at which the window began: it
	// was noticed later, or the window has begun again. A claim that somebody restored in
	// between must not look like one of those that were left behind.
	ScaledDownAt string `json:"scaledDownAt,omitempty"`
	// Defaults are the cluster-wide defaults for which the window runs (DefaultsText), and
	// whether Kubernetes itself deletes the claims.
	Defaults string `json:"defaults,omitempty"`
}

// Summary is the value of the last-prune annotation.
type Summary struct {
	// At is when the prune completed.
	At time.Time `json:"at"`
	// Ordinals that lost a claim, ascending.
	Ordinals []int64 `json:"ordinals"`
	// Claims is how many were deleted, Bytes what they had requested or held.
	Claims int   `json:"claims"`
	Bytes  int64 `json:"bytes"`
}

// ReadSummary reads the last-prune annotation; nil where there is none that can be read.
func ReadSummary(annotations map[string]string) *Summary {
	s := &Summary{}
	if json.Unmarshal([]byte(annotations[KeyLastPrune]), s) != nil || s.At.IsZero() {
		return nil
	}
	return s
}

// ReadBookkeeping reads the annotations of a stored StatefulSet. A part that is
// malformed is treated as absent: the bookkeeping then starts afresh from what is
// seen, which can only forget claims, never invent one.
func ReadBookkeeping(annotations map[string]string) Bookkeeping {
	b := Bookkeeping{Fence: annotations[KeyFence], LastPrune: annotations[KeyLastPrune]}
	b.Prior = readCount(annotations[KeyPriorReplicas])
	b.Record = readRecord(annotations[KeyRecord])
	target := readCount(annotations[KeyTargetReplicas])
	since, ok := readTime(annotations[KeyScaledDownAt])
	if target != nil && ok {
		b.Window = &Window{Target: *target, Since: since}
	}
	return b
}

// Annotations are the keys and values that store b; a key of BookkeepingKeys that
// is not among them is to be removed.
func (b Bookkeeping) Annotations() (map[string]string, error) {
	out := map[string]string{}
	put := func(key, value string) {
		if value != "" {
			out[key] = value
		}
	}
	put(KeyFence, b.Fence)
	put(KeyLastPrune, b.LastPrune)
	if b.Prior != nil {
		put(KeyPriorReplicas, strconv.Itoa(int(*b.Prior)))
	}
	if b.Window != nil {
		put(KeyTargetReplicas, strconv.Itoa(int(b.Window.Target)))
		put(KeyScaledDownAt, formatTime(b.Window.Since))
	}
	if b.Record != nil {
		record, err := json.Marshal(b.Record)
		if err != nil {
			return nil, fmt.Errorf("encode record: %w", err)
		}
		put(KeyRecord, string(record))
	}
	return out, nil
}

// Bound says whether the bookkeeping is about this very object.
func (b Bookkeeping) Bound(set *appsv1.StatefulSet) bool {
	return b.Prior != nil && b.Record != nil && set.UID != "" && b.Record.UID == set.UID
}

// Current says whether the bookkeeping accounts for this very version of the
// object: its UID, its start and its generation. Only then may a verdict rest on it.
func (b Bookkeeping) Current(set *appsv1.StatefulSet) bool {
	return b.Bound(set) && b.Record.Start == Start(set) && b.Record.Generation == set.Generation
}

// Pending says whether a prune is due now or later.
func (b Bookkeeping) Pending() bool { return b.Window != nil }

// Completed is the bookkeeping after a finished prune at the given count: what was
// kept is final, and the next window starts from this count.
func (b Bookkeeping) Completed(replicas int32, summary Summary) (Bookkeeping, error) {
	b.Prior, b.Window = &replicas, nil
	if b.Record != nil {
		record := *b.Record
		record.ScaledDownAt, record.Defaults = "", ""
		b.Record = &record
	}
	if summary.Claims > 0 {
		last, err := json.Marshal(summary)
		if err != nil {
			return Bookkeeping{}, fmt.Errorf("encode summary: %w", err)
		}
		b.LastPrune = string(last)
	}
	return b, nil
}

// formatTime is the one form in which times are written.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// FirstScaledDownAt is the earliest moment at which the first of the scale-downs that are
// pending may have happened.
func (b Bookkeeping) FirstScaledDownAt() time.Time {
	if b.Record != nil {
		if first, ok := readTime(b.Record.ScaledDownAt); ok {
			return first
		}
	}
	return b.Window.Since
}

// readCount reads a canonical, non-negative 32-bit number; anything else is none.
func readCount(s string) *int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != s {
		return nil
	}
	count := int32(n)
	return &count
}

// readTime reads a time in the one form in which it is written: UTC, whole seconds. A
// year that RFC 3339 cannot hold in UTC would be lost when it is written again.
func readTime(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.UTC().Format(time.RFC3339) != s {
		return time.Time{}, false
	}
	return t.UTC(), true
}

func readRecord(s string) *Record {
	var r Record
	if s == "" || json.Unmarshal([]byte(s), &r) != nil || r.UID == "" || r.Start < 0 {
		return nil
	}
	return &r
}

// Equal says whether b and o remember the same. What earlier prunes did is no part of it.
func (b Bookkeeping) Equal(o Bookkeeping) bool {
	b.LastPrune, o.LastPrune = "", ""
	return reflect.DeepEqual(b, o)
}
