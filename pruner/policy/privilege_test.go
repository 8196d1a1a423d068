package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestPrivileged(t *testing.T) {
	type annotations map[string]string
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
		"pausing together with something that is no brake": {in(), in(policy.KeyPaused, "true", policy.KeyScope, "all"), []string{policy.KeyScope}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, policy.Privileged(tt.before, tt.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
