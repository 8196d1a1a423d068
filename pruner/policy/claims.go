package policy

import (
	"math"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
)

// ClaimName is the name of the claim that the StatefulSet controller makes from a
// volumeClaimTemplate (getPersistentVolumeClaimName in Kubernetes'
// pkg/controller/statefulset/stateful_set_utils.go).
func ClaimName(template, set string, ordinal int64) string {
	return template + "-" + set + "-" + strconv.FormatInt(ordinal, 10)
}

// PodName is the name of the pod that the StatefulSet controller makes for an ordinal.
func PodName(set string, ordinal int64) string {
	return set + "-" + strconv.FormatInt(ordinal, 10)
}

// ClaimOrdinal returns the ordinal whose claim of this template has exactly this
// name. A number with leading zeros, a sign, or beyond what an ordinal can be
// (start and replicas are 32-bit) is no ordinal: the controller never builds it.
func ClaimOrdinal(claim, template, set string) (int64, bool) {
	digits, ok := strings.CutPrefix(claim, template+"-"+set+"-")
	if !ok || digits == "" || len(digits) > len("4294967294") {
		return 0, false
	}
	if digits != "0" && digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > 2*math.MaxInt32 {
		return 0, false
	}
	return n, true
}

// Replicas is the desired count. The API server defaults it to 1; nil can come
// only from a client that bypassed it, and ok is false then: nothing may be
// derived from a guess.
func Replicas(set *appsv1.StatefulSet) (n int32, ok bool) {
	if set.Spec.Replicas == nil || *set.Spec.Replicas < 0 {
		return 0, false
	}
	return *set.Spec.Replicas, true
}

// Start is the first ordinal, spec.ordinals.start, 0 where absent.
func Start(set *appsv1.StatefulSet) int32 {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return set.Spec.Ordinals.Start
}

// Candidate says whether the name is that of a claim of one of the set's
// templates, and of which one.
func Candidate(set *appsv1.StatefulSet, claim string) (template string, ordinal int64, ok bool) {
	for i := range set.Spec.VolumeClaimTemplates {
		t := set.Spec.VolumeClaimTemplates[i].Name
		if n, ok := ClaimOrdinal(claim, t, set.Name); ok {
			return t, n, true
		}
	}
	return "", 0, false
}

// ClaimNames lists the names of the set's claims for the ordinals from (included)
// to (excluded), ascending by ordinal, and at most limit of them; total is how
// many there would be. It says nothing on whether they exist.
func ClaimNames(set *appsv1.StatefulSet, from, to int64, limit int) (names []string, total int64) {
	templates := set.Spec.VolumeClaimTemplates
	total = max(0, to-from) * int64(len(templates))
	for ordinal := from; ordinal < to; ordinal++ {
		for i := range templates {
			if len(names) == limit {
				return names, total
			}
			names = append(names, ClaimName(templates[i].Name, set.Name, ordinal))
		}
	}
	return names, total
}
