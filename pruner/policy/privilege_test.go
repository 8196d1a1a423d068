package policy_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestPrivileged(t *testing.T) {
	type annotations map[string]string
	const unknown = policy.Prefix + "dely"
	in := func(pairs ...string) annotations {
		a := annotations{policy.KeyEnabled: "true"}
		for i := 0; i < len(pairs); i += 2 {
			a[pairs[i]] = pairs[i+1]
		}
		return a
	}
	for name, tt := range map[string]struct {
		before, after annotations
		want          []string
	}{
		"nothing changed":                                  {in(policy.KeyDelay, "1h"), in(policy.KeyDelay, "1h"), nil},
		"opting in":                                        {nil, in(), []string{policy.KeyEnabled}},
		"opting in with other controls":                    {nil, in(policy.KeyScope, "all"), []string{policy.KeyEnabled, policy.KeyScope}},
		"opting out by value":                              {in(), annotations{policy.KeyEnabled: "false"}, nil},
		"opting out by removal":                            {in(), nil, nil},
		"opting out by removal of everything":              {in(policy.KeyDelay, "1h", policy.KeyPaused, "true"), nil, nil},
		"opting out and setting something else":            {in(), annotations{policy.KeyDelay: "0s"}, []string{policy.KeyDelay}},
		"pausing":                                          {in(), in(policy.KeyPaused, "true"), nil},
		"lifting a pause":                                  {in(policy.KeyPaused, "true"), in(policy.KeyPaused, "false"), []string{policy.KeyPaused}},
		"lifting a pause by removal":                       {in(policy.KeyPaused, "true"), in(), []string{policy.KeyPaused}},
		"a shorter delay":                                  {in(policy.KeyDelay, "1h"), in(policy.KeyDelay, "1m"), []string{policy.KeyDelay}},
		"a longer delay":                                   {in(policy.KeyDelay, "1h"), in(policy.KeyDelay, "2h"), []string{policy.KeyDelay}},
		"a delay removed":                                  {in(policy.KeyDelay, "1h"), in(), []string{policy.KeyDelay}},
		"an empty value where there was none":              {in(), in(policy.KeyDelay, ""), []string{policy.KeyDelay}},
		"a control before opting in":                       {nil, annotations{policy.KeyScope: "all"}, []string{policy.KeyScope}},
		"bookkeeping and other people's keys":              {in(), in(policy.KeyPriorReplicas, "9", "example.com/x", "y"), nil},
		"several at once, in the order of the docs":        {in(), in(policy.KeyDryRun, "true", policy.KeyDelay, "0s"), []string{policy.KeyDelay, policy.KeyDryRun}},
		"an odd value put right":                           {in(policy.KeyDelay, "soon"), in(policy.KeyDelay, "1h"), []string{policy.KeyDelay}},
		"an unknown key taken away, which held everything": {in(unknown, "1h"), in(), []string{unknown}},
		"an unknown key of a set that is not opted in":     {annotations{unknown: "1h"}, nil, nil},
		"an unknown key taken away by opting out":          {in(unknown, "1h"), nil, nil},
		"pausing instead of another word for it":           {in(policy.KeyPaused, "yes"), in(policy.KeyPaused, "true"), nil},
		"opting back in":                                   {annotations{policy.KeyEnabled: "false"}, in(), []string{policy.KeyEnabled}},
		"opting in while paused":                           {annotations{policy.KeyPaused: "true"}, in(policy.KeyPaused, "true"), []string{policy.KeyEnabled}},
		"pausing together with something that is no brake": {in(), in(policy.KeyPaused, "true", policy.KeyScope, "all"), []string{policy.KeyScope}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, policy.Privileged(tt.before, tt.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Otherwise the right to edit a StatefulSet would be the right to destroy data.
func TestWhateverLetsMoreClaimsGoNeedsThePrivilege(t *testing.T) {
	values := map[string][]string{
		"enabled": {"true", "false", "yes"}, "paused": {"true", "false", "yes"}, "dry-run": {"true", "false", "yes"},
		"delay": {"0s", "1h", "soon"}, "scope": {"all", "scaled-down", "some"}, "scale-to-zero": {"keep", "prune"},
		"stale-volumes": {"reuse", "forbid"}, "templates": {"data", "data,wal", ","}, "snapshot-class": {"fast", "Fast One"}, "dely": {"1h"},
	}
	rapid.Check(t, func(r *rapid.T) {
		before, after := map[string]string{}, map[string]string{}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value := rapid.SampledFrom(append(values[key], ""))
			before[policy.Prefix+key] = value.Draw(r, key)
			after[policy.Prefix+key] = before[policy.Prefix+key]
			if rapid.IntRange(0, 3).Draw(r, key+" changes") == 0 {
				after[policy.Prefix+key] = value.Draw(r, key+" after")
			}
		}
		for _, annotations := range []map[string]string{before, after} {
			maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
		}
		defaults := policy.DefaultControls(policy.DefaultDelay)
		was, is := policy.ReadControls(before, defaults), policy.ReadControls(after, defaults)
		if !is.Enabled || is.Paused || was.Enabled && !is.Widened(was) {
			return
		}
		if len(policy.Privileged(before, after)) == 0 {
			r.Errorf("free to all who may edit the set: %v to %v", before, after)
		}
	})
}
