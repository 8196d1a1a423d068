package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestEveryKeyBearsThePrefixAndIsEitherControlOrBookkeeping(t *testing.T) {
	all := slices.Concat(policy.ControlKeys(), policy.BookkeepingKeys())
	for _, key := range all {
		if !strings.HasPrefix(key, policy.Prefix) {
			t.Errorf("%s lacks the prefix", key)
		}
	}
	slices.Sort(all)
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("a key stands twice in %v", all)
	}
}

func TestShort(t *testing.T) {
	for key, want := range map[string]string{policy.KeyScaleToZero: "scale-to-zero", "example.com/x": "example.com/x"} {
		if got := policy.Short(key); got != want {
			t.Errorf("Short(%q) = %q", key, got)
		}
	}
}
