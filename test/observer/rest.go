package observer

import "fmt"

// Left says what is not at rest: fences, and claims which had to go.
func (r *Recorder) Left() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []string
	for name, versions := range r.history.sets {
		last := versions[len(versions)-1]
		if last.fence != "" {
			left = append(left, fmt.Sprintf("%s: a fence is left: %s", name, last.fence))
		}
	}
	for _, claim := range r.history.claims {
		set, ordinal, ok := owner(claim.name)
		if claim.gone > 0 || !ok {
			continue
		}
		versions := r.history.sets[set]
		accounted := int32(0)
		var v, before setVersion
		for i := range versions {
			v = versions[i]
			accounted = account(accounted, before, v, i == 0)
			before = v
		}
		if v.replicas > 0 && ordinal >= v.start+v.replicas && ordinal < v.start+accounted {
			left = append(left, fmt.Sprintf("%s (%s) is left, although %s has start %d, replicas %d and had %d", claim.name, claim.uid, set, v.start, v.replicas, accounted))
		}
	}
	return left
}
