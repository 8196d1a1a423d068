package policy

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Workload is what makes pods of its own accord: a CronJob between two runs, say, names
// its claim in no pod.
type Workload struct {
	Kind, Name string
	// Pod is the spec of the pods that it makes.
	Pod corev1.PodSpec
}

// gateWorkload waits while pods that use the claim may be made later.
func gateWorkload(_ Plan, s Snapshot, v Verdict) *finding {
	for i := range s.Sets {
		for j := range s.Sets[i].Spec.VolumeClaimTemplates {
			if fillsFrom(&s.Sets[i].Spec.VolumeClaimTemplates[j].Spec, v.Claim.Name) {
				name := s.Sets[i].Name
				return &finding{Wait, ReasonWorkload, "statefulset/" + name, fmt.Sprintf("a volumeClaimTemplate of StatefulSet %s is filled from it", name)}
			}
		}
	}
	for _, w := range append(s.Workloads, setsAsWorkloads(s)...) {
		if names(&w.Pod, v.Claim.Name) {
			return &finding{
				Wait, ReasonWorkload, strings.ToLower(w.Kind) + "/" + w.Name,
				fmt.Sprintf("the pod template of %s %s names it", w.Kind, w.Name),
			}
		}
	}
	return nil
}

// setsAsWorkloads are the StatefulSets of the namespace, whose pods may name claims of
// others besides their own.
func setsAsWorkloads(s Snapshot) []Workload {
	workloads := make([]Workload, 0, len(s.Sets))
	for i := range s.Sets {
		workloads = append(workloads, Workload{Kind: "StatefulSet", Name: s.Sets[i].Name, Pod: s.Sets[i].Spec.Template.Spec})
	}
	return workloads
}

// names says whether a pod of this spec would name the claim, or fill a volume from it.
func names(pod *corev1.PodSpec, claim string) bool {
	for i := range pod.Volumes {
		if source := pod.Volumes[i].PersistentVolumeClaim; source != nil && source.ClaimName == claim {
			return true
		}
		if e := pod.Volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil && fillsFrom(&e.VolumeClaimTemplate.Spec, claim) {
			return true
		}
	}
	return false
}

// fillsFrom says whether a claim of this spec would be a clone of the claim.
func fillsFrom(spec *corev1.PersistentVolumeClaimSpec, claim string) bool {
	clone := corev1.PersistentVolumeClaim{Spec: *spec}
	return clonedFrom(&clone, claim, "")
}
