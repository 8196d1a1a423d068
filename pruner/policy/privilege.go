package policy

import (
	"maps"
	"slices"
	"strings"
)

// Privileged returns the annotations that a change adds, changes or removes and that
// widen or move what may be deleted, or might: whoever makes the change must be allowed
// to delete claims. Opting out and pausing are the brakes, and free to all who may edit
// the StatefulSet; so is whatever is taken away from one that is opted out by the same
// change.
func Privileged(before, after map[string]string) []string {
	var keys []string
	for _, key := range append(ControlKeys(), unknownKeys(before, after)...) {
		old, had := before[key]
		value, has := after[key]
		switch {
		case had == has && old == value:
		case key == KeyEnabled && value != "true":
		case key == KeyPaused && value == "true":
		case !has && !OptedIn(after):
		default:
			keys = append(keys, key)
		}
	}
	return keys
}

// unknownKeys are the keys with our prefix that mean nothing, in order. While there is
// one nothing is pruned, so that taking it away lifts a hold.
func unknownKeys(before, after map[string]string) []string {
	known := append(ControlKeys(), BookkeepingKeys()...)
	keys := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(keys)
	return slices.DeleteFunc(slices.Compact(keys), func(key string) bool {
		return !strings.HasPrefix(key, Prefix) || slices.Contains(known, key)
	})
}
