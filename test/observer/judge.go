package observer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// early is by how much a claim may go before its window is over by the observer's
// clock: windows begin at whole seconds, and watches deliver late.
const early = 1500 * time.Millisecond

// judge returns what was done wrong in a history.
func judge(h history, err error) []string {
	if err != nil {
		return []string{fmt.Sprintf("the observer lost track: %v", err)}
	}
	var violations []string
	for _, claim := range h.claims {
		if claim.marked == 0 {
			continue
		}
		set, ordinal, ok := owner(claim.name)
		if !ok || len(h.sets[set]) == 0 {
			violations = append(violations, fmt.Sprintf("%s was deleted and is no set's", claim.name))
			continue
		}
		for _, why := range append(judgeMark(h.sets[set], claim, ordinal), judgeDying(h, h.sets[set], claim, ordinal)...) {
			violations = append(violations, fmt.Sprintf("%s (%s, revisions %d to %d): %s; %s", claim.name, claim.uid, claim.marked, claim.gone, why,
				around(h.sets[set], claim.marked)))
		}
	}
	return violations
}

// owner splits the name of a claim of the template data.
func owner(claim string) (set string, ordinal int32, ok bool) {
	parts := strings.Split(claim, "-")
	if len(parts) != 3 || parts[0] != "data" {
		return "", 0, false
	}
	n, err := strconv.ParseInt(parts[2], 10, 32)
	return parts[1], int32(n), err == nil
}

func (v setVersion) contains(ordinal int32) bool {
	return ordinal >= v.start && ordinal < v.start+v.replicas
}

// judgeMark judges the moment at which a claim was deleted.
func judgeMark(versions []setVersion, claim *life, ordinal int32) []string {
	if later := slices.IndexFunc(versions, func(v setVersion) bool { return v.revision >= claim.marked }); later >= 0 {
		versions = versions[:later]
	}
	if len(versions) == 0 {
		return []string{"deleted before its set was seen"}
	}
	var why []string
	check := func(wrong bool, text string) {
		if wrong {
			why = append(why, text)
		}
	}
	last := versions[len(versions)-1]
	check(last.contains(ordinal), fmt.Sprintf("in range: start %d, replicas %d", last.start, last.replicas))

	versions = versions[:len(versions)-passedAfterHold(versions, claim.markedSeen)]
	accounted := int32(0) // ordinals below this, from start, were scaled down and may go
	var changed time.Time // when replicas or ordinals last changed
	var v, before setVersion
	for i := range versions {
		before, v = v, versions[i]
		if i == 0 || before.replicas != v.replicas || before.start != v.start {
			changed = v.seen
		}
		accounted = account(accounted, before, v, i == 0)
	}
	check(ordinal < v.start, "below start")
	check(!v.enabled, "not opted in")
	check(v.paused, "paused")
	check(v.replicas == 0, "scaled to zero")
	check(ordinal >= v.start+accounted, fmt.Sprintf("never scaled down: at most %d were accounted for", accounted))
	check(claim.markedSeen.Before(changed.Add(v.delay-early)), "within the undo window")
	return why
}

// A change that adds no ordinal behind a fence passes after it was held for so long, and
// then one DELETE, which may take so long, may still be under way (docs/safety.md).
const (
	heldFor        = 3*time.Second - early
	deleteDeadline = 5 * time.Second
)

// passedAfterHold counts the last versions that a DELETE may not have seen, because they
// came when the fence, which they carry on, had stood for longer than a change is held.
func passedAfterHold(versions []setVersion, marked time.Time) (n int) {
	for ; n < len(versions)-1; n++ {
		v := versions[len(versions)-1-n]
		raised := slices.IndexFunc(versions, func(other setVersion) bool { return other.fence == v.fence })
		if v.fence == "" || v.seen.Sub(versions[raised].seen) < heldFor || marked.Sub(v.seen) > deleteDeadline {
			break
		}
	}
	return n
}

// account follows the highest count of which claims may go.
func account(accounted int32, before, v setVersion, first bool) int32 {
	switch {
	case !v.enabled:
		return 0
	case first:
		return v.replicas
	case !before.enabled:
		return max(before.replicas, v.replicas)
	case before.start != v.start, before.replicas == 0 && v.replicas > 0:
		return v.replicas
	}
	return max(accounted, v.replicas)
}

// judgeDying judges the time from a claim's deletion until it is gone.
func judgeDying(h history, versions []setVersion, claim *life, ordinal int32) []string {
	var why []string
	dying := func(revision uint64) bool {
		return revision > claim.marked && (claim.gone == 0 || revision < claim.gone)
	}
	again := slices.IndexFunc(versions, func(v setVersion) bool { return dying(v.revision) && v.contains(ordinal) })
	if again >= 0 {
		v := versions[again]
		why = append(why, fmt.Sprintf("in range again before it was gone: start %d, replicas %d at revision %d", v.start, v.replicas, v.revision))
	}
	for _, pod := range h.pods {
		switch {
		case !slices.Contains(pod.claims, claim.name):
		case dying(pod.created):
			why = append(why, fmt.Sprintf("pod %s started on it at revision %d", pod.name, pod.created))
		case pod.created < claim.marked && (pod.gone == 0 || pod.gone > claim.marked):
			why = append(why, fmt.Sprintf("deleted under pod %s", pod.name))
		}
	}
	return why
}

// around tells a set's versions next to a revision, for whoever has to find the cause.
func around(versions []setVersion, revision uint64) string {
	at := slices.IndexFunc(versions, func(v setVersion) bool { return v.revision >= revision })
	if at < 0 {
		at = len(versions)
	}
	var told []string
	for _, v := range versions[max(0, at-6):min(len(versions), at+3)] {
		told = append(told, fmt.Sprintf("%d: start %d, replicas %d, enabled %t, paused %t, delay %s, fence %q",
			v.revision, v.start, v.replicas, v.enabled, v.paused, v.delay, v.fence))
	}
	return "the set by revision: " + strings.Join(told, "; ")
}
