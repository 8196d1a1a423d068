package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// snapshotFinalizer is set on a claim by the CSI snapshot controller while a
// snapshot of it is being taken (kubernetes-csi/external-snapshotter, pkg/utils).
const snapshotFinalizer = "snapshot.storage.kubernetes.io/pvc-as-source-protection"

// controllerLag is how long after a scale-down the StatefulSet controller may still
// make claims for the older count. A claim that it made in that time is no restored one.
const controllerLag = 5 * time.Second

// finding is what a gate found against deleting a claim.
type finding struct {
	decision Decision
	reason   Reason
	subject  string
	message  string
}

// claimGates in order: the first that finds something decides. Those that keep for
// good stand first, so that a claim which will never go does not look like waiting.
var claimGates = [...]struct {
	demand string // what the gate demands, in words
	ask    func(Plan, Snapshot, Verdict) *finding
}{
	{"it is not marked to be kept", gateKeepAnnotation},
	{"its template may be pruned", gateTemplate},
	{"no other controller owns it", gateOwner},
	{"no other StatefulSet could use its name", gateNameShared},
	{"it is not being deleted already", gateTerminating},
	{"it was made before the scale-down", gateCreatedSince},
	{"the pod of its ordinal is gone", gatePod},
	{"no pod names it", gateInUse},
	{"it is not being cloned", gateClone},
	{"the storage driver takes no snapshot of it", gateSnapshot},
	{"Kubernetes does not delete it by itself", gateBuiltIn},
	{"no VolumeSnapshot of it is under way", gateSnapshotUnderWay},
	{"no workload will need it", gateWorkload},
	{"the VolumeSnapshot that is asked for is ready", gateSnapshotTaken},
}

// gateKeepAnnotation keeps a claim that carries any mark of ours but keep: "false".
// Whoever wrote another key, or a label, wanted something for this claim: most likely
// that it stays.
func gateKeepAnnotation(_ Plan, _ Snapshot, v Verdict) *finding {
	for _, key := range slices.Sorted(maps.Keys(v.Claim.Annotations)) {
		if value := v.Claim.Annotations[key]; strings.HasPrefix(key, Prefix) && (key != KeyKeep || value != "false") {
			return &finding{Keep, ReasonKeepAnnotation, "", fmt.Sprintf("keep: annotated %s=%q", key, value)}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(v.Claim.Labels)) {
		if strings.HasPrefix(key, Prefix) {
			return &finding{Keep, ReasonKeepAnnotation, "", fmt.Sprintf("keep: labelled %s=%q", key, v.Claim.Labels[key])}
		}
	}
	return nil
}

func gateTemplate(p Plan, _ Snapshot, v Verdict) *finding {
	if p.Controls.AllowsTemplate(v.Template) {
		return nil
	}
	return &finding{Keep, ReasonTemplateExcluded, "", fmt.Sprintf("template %s is not listed in %s", v.Template, KeyTemplates)}
}

// gateOwner keeps a claim that another controller owns. The set itself owns it under
// some retention policies, and so does the set's own pod while it is scaled down
// (updateClaimOwnerRefForSetAndPod in Kubernetes' pkg/controller/statefulset).
func gateOwner(p Plan, _ Snapshot, v Verdict) *finding {
	owner := metav1.GetControllerOf(v.Claim)
	if owner == nil || isSet(owner, p.Set) || isOwnPod(owner, p.Set, v.Ordinal) {
		return nil
	}
	return &finding{Keep, ReasonOwnedByOther, owner.Kind + "/" + owner.Name, fmt.Sprintf("owned by %s %s", owner.Kind, owner.Name)}
}

func isSet(owner *metav1.OwnerReference, set *appsv1.StatefulSet) bool {
	return owner.UID == set.UID
}

func isOwnPod(owner *metav1.OwnerReference, set *appsv1.StatefulSet, ordinal int64) bool {
	return owner.APIVersion == "v1" && owner.Kind == "Pod" && owner.Name == PodName(set.Name, ordinal)
}

// gateNameShared keeps a claim whose name another set could build at any ordinal,
// whether it does so now or not: names do not tell where the template ends.
func gateNameShared(p Plan, s Snapshot, v Verdict) *finding {
	for i := range s.Sets {
		other := &s.Sets[i]
		if other.UID == p.Set.UID && other.Name == p.Set.Name {
			continue
		}
		if _, _, ok := Candidate(other, v.Claim.Name); ok {
			return &finding{Keep, ReasonNameShared, "statefulset/" + other.Name, fmt.Sprintf("StatefulSet %s could use a claim of this name too", other.Name)}
		}
	}
	return nil
}

func gateTerminating(_ Plan, _ Snapshot, v Verdict) *finding {
	if v.Claim.DeletionTimestamp == nil {
		return nil
	}
	v = v.Terminating()
	return &finding{v.Decision, v.Reason, v.Subject, v.Message}
}

// gateCreatedSince keeps a claim that somebody restored or made by hand after the
// scale-down, or may have: times are in whole seconds, and an equal one counts as later.
// What the StatefulSet controller made is the set's own, also a moment after the
// scale-down, when it still acts on the older count.
func gateCreatedSince(p Plan, _ Snapshot, v Verdict) *finding {
	created := v.Claim.CreationTimestamp.Time
	if p.Controls.Scope == ScopeAll || created.Before(p.Bookkeeping.FirstScaledDownAt()) {
		return nil
	}
	if !created.After(p.Bookkeeping.Window.Since.Add(controllerLag)) && MadeByController(v.Claim) {
		return nil
	}
	return &finding{Keep, ReasonCreatedSince, "", "created at " + created.UTC().Format(time.RFC3339) + ", after the scale-down"}
}

// MadeByController says whether the controller manager created the claim: it owns what
// can only be set at the creation, and since then. A restored claim names the tool that
// restored it, or carries the fields of its former life, whose time is that of then.
func MadeByController(claim *corev1.PersistentVolumeClaim) bool {
	for i := range claim.ManagedFields {
		f := &claim.ManagedFields[i]
		if f.FieldsV1 == nil || f.Subresource != "" || f.Operation != metav1.ManagedFieldsOperationUpdate {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) != nil {
			return false
		}
		if _, creator := fields.Spec["f:accessModes"]; creator {
			return f.Manager == "kube-controller-manager" && f.Time != nil && !f.Time.Before(&claim.CreationTimestamp)
		}
	}
	return false
}

func gatePod(p Plan, s Snapshot, v Verdict) *finding {
	name := PodName(p.Set.Name, v.Ordinal)
	for i := range s.Pods {
		if s.Pods[i].Name == name {
			return &finding{Wait, ReasonPodExists, "pod/" + name, describePod(&s.Pods[i]) + " still exists"}
		}
	}
	return nil
}

func gateInUse(_ Plan, s Snapshot, v Verdict) *finding {
	for i := range s.Pods {
		if Uses(&s.Pods[i], v.Claim.Name) {
			return &finding{Wait, ReasonInUse, "pod/" + s.Pods[i].Name, describePod(&s.Pods[i]) + " uses it"}
		}
	}
	return nil
}

// Uses says whether a pod names the claim, whatever the pod's phase: directly,
// or as the claim of a generic ephemeral volume, which is called <pod>-<volume>.
func Uses(pod *corev1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
		if v.Ephemeral != nil && pod.Name+"-"+v.Name == claim {
			return true
		}
	}
	return false
}

func describePod(pod *corev1.Pod) string {
	text := "pod " + pod.Name
	if pod.Spec.NodeName != "" {
		text += " on node " + pod.Spec.NodeName
	}
	state := string(pod.Status.Phase)
	if pod.DeletionTimestamp != nil {
		state = "terminating since " + pod.DeletionTimestamp.UTC().Format(time.RFC3339)
	}
	if state != "" {
		text += " (" + state + ")"
	}
	return text
}

// gateClone waits for a claim that is still being filled from this one.
func gateClone(p Plan, s Snapshot, v Verdict) *finding {
	for i := range s.Claims {
		clone := &s.Claims[i]
		if clone.Status.Phase != corev1.ClaimBound && clonedFrom(clone, v.Claim.Name, p.Set.Namespace) {
			return &finding{Wait, ReasonCloning, "persistentvolumeclaim/" + clone.Name, fmt.Sprintf("claim %s is being cloned from it", clone.Name)}
		}
	}
	return nil
}

// clonedFrom says whether clone is filled from the claim source in namespace; "" for any
// namespace, where it is not known: that can only keep a claim.
func clonedFrom(clone *corev1.PersistentVolumeClaim, source, namespace string) bool {
	const kind = "PersistentVolumeClaim"
	if d := clone.Spec.DataSource; d != nil && d.Kind == kind && d.Name == source {
		return true
	}
	d := clone.Spec.DataSourceRef
	return d != nil && d.Kind == kind && d.Name == source && (d.Namespace == nil || *d.Namespace == namespace || namespace == "")
}

func gateSnapshot(_ Plan, _ Snapshot, v Verdict) *finding {
	if !slices.Contains(v.Claim.Finalizers, snapshotFinalizer) {
		return nil
	}
	return &finding{Wait, ReasonSnapshotting, "", "a snapshot of it is being taken"}
}

// gateBuiltIn leaves the deletion to Kubernetes where the set's own policy asks for
// it: two deleters of one claim would blur who did what.
func gateBuiltIn(p Plan, _ Snapshot, _ Verdict) *finding {
	if !BuiltInDeletes(p.Set) {
		return nil
	}
	return &finding{Wait, ReasonBuiltIn, "", "persistentVolumeClaimRetentionPolicy.whenScaled is Delete: Kubernetes deletes it"}
}

// BuiltInDeletes says whether Kubernetes itself deletes the claims of scaled-down ordinals.
func BuiltInDeletes(set *appsv1.StatefulSet) bool {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	return policy != nil && policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}
