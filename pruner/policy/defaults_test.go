package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func set(t *testing.T, pairs ...string) policy.Controls {
	t.Helper()
	c := policy.DefaultControls(policy.DefaultDelay)
	for i := 0; i < len(pairs); i += 2 {
		if err := c.SetDefault(pairs[i], pairs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestDefaultsHoldWhereThereIsNoAnnotation(t *testing.T) {
	defaults := set(t, policy.KeyDelay, "1h", policy.KeyScope, "all", policy.KeyScaleToZero, "prune", policy.KeyStaleVolumes, "forbid",
		policy.KeyTemplates, "wal", policy.KeySnapshotClass, "csi", policy.KeyPaused, "true")
	want := policy.Controls{
		Enabled: true, Delay: time.Hour, Scope: policy.ScopeAll, PruneAtZero: true, ForbidStale: true,
		Templates: []string{"wal"}, SnapshotClass: "csi", Paused: true,
	}
	if diff := cmp.Diff(want, policy.ReadControls(map[string]string{policy.KeyEnabled: "true"}, defaults)); diff != "" {
		t.Errorf("without annotations (-want +got):\n%s", diff)
	}
	annotations := map[string]string{
		policy.KeyEnabled: "true", policy.KeyDelay: "0s", policy.KeyScope: "scaled-down", policy.KeyScaleToZero: "keep",
		policy.KeyStaleVolumes: "reuse", policy.KeyTemplates: "data", policy.KeySnapshotClass: "other", policy.KeyPaused: "false",
	}
	want = policy.Controls{Enabled: true, Scope: policy.ScopeScaledDown, Templates: []string{"data"}, SnapshotClass: "other"}
	if diff := cmp.Diff(want, policy.ReadControls(annotations, defaults)); diff != "" {
		t.Errorf("with annotations (-want +got):\n%s", diff)
	}
}

func TestDefaultDryRunWinsOverAll(t *testing.T) {
	defaults := set(t, policy.KeyDryRun, "true")
	if !policy.ReadControls(map[string]string{policy.KeyDryRun: "false"}, defaults).DryRun {
		t.Error("an annotation ended the cluster-wide dry run")
	}
	if policy.ReadControls(map[string]string{policy.KeyDryRun: "false"}, set(t)).DryRun {
		t.Error("a dry run from nowhere")
	}
}

func TestDefaultsText(t *testing.T) {
	for name, tt := range map[string]struct {
		pairs []string
		want  string
	}{
		"the built-in ones": {nil, ""},
		"the same, said":    {[]string{policy.KeyDelay, "600s", policy.KeyPaused, "false", policy.KeyScope, "scaled-down"}, ""},
		"all": {
			[]string{
				policy.KeyDryRun, "true", policy.KeyPaused, "true", policy.KeySnapshotClass, "csi", policy.KeyTemplates, "data,wal",
				policy.KeyStaleVolumes, "forbid", policy.KeyScaleToZero, "prune", policy.KeyScope, "all", policy.KeyDelay, "0s",
			},
			"delay=0s scope=all scale-to-zero=prune stale-volumes=forbid templates=data,wal snapshot-class=csi paused=true dry-run=true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := set(t, tt.pairs...).DefaultsText(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDefaultThatIsNotAcceptedSaysWhatIs(t *testing.T) {
	c := policy.DefaultControls(policy.DefaultDelay)
	if err := c.SetDefault(policy.KeyScope, "every"); err == nil || err.Error() != `accepted are "scaled-down" and "all"` {
		t.Errorf("got %v", err)
	}
}

// A flag that changes at a restart must not let anything go at once that had a window
// under the old one.
func TestOtherDefaultsBeginTheWindowAgain(t *testing.T) {
	shorter := set(t, policy.KeyDelay, "1m")
	under := func(text string) bookOption { return func(b *policy.Bookkeeping) { b.Record.Defaults = text } }
	restarted := pending(5, 3, thisSec, under("delay=1m"), downSince(earlier))
	for name, tt := range map[string]struct {
		stored   policy.Bookkeeping
		defaults policy.Controls
		want     policy.Bookkeeping
	}{
		"the same":                 {pending(5, 3, earlier), defaults, pending(5, 3, earlier)},
		"the same, not built in":   {pending(5, 3, earlier, under("delay=1m")), shorter, pending(5, 3, earlier, under("delay=1m"))},
		"others":                   {pending(5, 3, earlier), shorter, restarted},
		"back to the built-in one": {pending(5, 3, earlier, under("delay=1m")), defaults, pending(5, 3, thisSec, downSince(earlier))},
		"nothing is pending":       {idle(3), shorter, idle(3)},
	} {
		t.Run(name, func(t *testing.T) {
			stored := newSet(3, remembering(tt.stored))
			for _, first := range []bool{false, true} {
				got := policy.Observe(stored, policy.Seen{First: first}, tt.defaults, now)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("pruner (-want +got):\n%s", diff)
				}
			}
			got := policy.OnUpdate(stored, newSet(3, remembering(tt.stored), with("example.com/a", "b")), tt.defaults, now)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("webhook (-want +got):\n%s", diff)
			}
		})
	}
}
