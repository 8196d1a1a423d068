package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Scope says which unused ordinals may be pruned.
type Scope string

// The values of the scope annotation.
const (
	ScopeScaledDown Scope = "scaled-down" // those between the current and the prior count
	ScopeAll        Scope = "all"         // every ordinal above the current range
)

// Controls are the wishes of a StatefulSet's owner, after defaults. The zero
// value is not opted in and prunes nothing.
type Controls struct {
	Enabled     bool
	Delay       time.Duration
	Scope       Scope
	PruneAtZero bool
	// ForbidStale refuses a scale-up onto old volumes.
	ForbidStale bool
	// Templates that may be pruned; nil means all.
	Templates     []string
	DryRun        bool
	Paused        bool
	SnapshotClass string
	// Snapshots: pvc-pruner may take VolumeSnapshots. No annotation says so.
	Snapshots bool
	// IgnoreWorkloads: a workload that will need a claim is no reason to keep it. No
	// annotation says so.
	IgnoreWorkloads bool
	// Invalid lists what could not be read. While there is any, nothing is pruned:
	// whoever wrote the value wanted something, and we do not know what.
	Invalid []Problem
}

// Problem is a rejected annotation: its key, its value, and what is accepted.
type Problem struct{ Key, Value, Accepted string }

// String says what was wrong and what is accepted, in one line.
func (p Problem) String() string {
	if p.Accepted == "" {
		return fmt.Sprintf("%s is not an annotation of pvc-pruner on a StatefulSet; accepted are: %s",
			p.Key, strings.Join(ControlKeys(), ", "))
	}
	return fmt.Sprintf("%s: %q is not accepted; %s", p.Key, p.Value, p.Accepted)
}

// ReadControls reads the annotations of a StatefulSet. What is absent keeps its
// default; a default dry-run wins over all. What is odd turns into the safest value (not opted in, keep, paused)
// and is listed in Invalid, as are unknown keys with our prefix.
func ReadControls(annotations map[string]string, defaults Controls) Controls {
	c := defaults
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(key, Prefix) || slices.Contains(BookkeepingKeys(), key) {
			continue
		}
		if accepted := c.set(key, annotations[key]); accepted != nil {
			c.Invalid = append(c.Invalid, Problem{Key: key, Value: annotations[key], Accepted: *accepted})
		}
	}
	c.DryRun = c.DryRun || defaults.DryRun // whoever tries us out on a cluster wants nothing to go
	return c
}

// CheckControls returns what is wrong with annotations that old does not have in
// the same form. Ratcheting, as Kubernetes' own validation does it: a value that
// was stored before the webhook was installed must not block later changes to
// something else; the pruner reports it instead.
func CheckControls(old, annotations map[string]string) []Problem {
	var changed []Problem
	for _, p := range ReadControls(annotations, Controls{}).Invalid {
		if was, ok := old[p.Key]; !ok || was != p.Value {
			changed = append(changed, p)
		}
	}
	return changed
}

// OptedIn says whether annotations opt in: only the exact value "true" does.
func OptedIn(annotations map[string]string) bool { return annotations[KeyEnabled] == "true" }

// Widened says whether the change from old to c lets more volumes go, or lets
// them go sooner. Such a change restarts the undo window, so that nothing goes at
// the very moment at which somebody lifts a hold.
func (c Controls) Widened(old Controls) bool {
	return c.lifts(old) || c.broadens(old) || c.hastens(old)
}

func (c Controls) lifts(old Controls) bool {
	return old.Paused && !c.Paused || old.DryRun && !c.DryRun || len(old.Invalid) > len(c.Invalid)
}

func (c Controls) broadens(old Controls) bool {
	return old.Scope != ScopeAll && c.Scope == ScopeAll || !old.PruneAtZero && c.PruneAtZero ||
		moreTemplates(old.Templates, c.Templates)
}

func (c Controls) hastens(old Controls) bool {
	return c.Delay < old.Delay || old.SnapshotClass != "" && c.SnapshotClass == "" || !old.ForbidStale && c.ForbidStale
}

// AllowsTemplate says whether claims of this volumeClaimTemplate may be pruned.
func (c Controls) AllowsTemplate(name string) bool {
	return c.Templates == nil || slices.Contains(c.Templates, name)
}

func moreTemplates(old, now []string) bool {
	if old == nil {
		return false
	}
	return now == nil || slices.ContainsFunc(now, func(t string) bool { return !slices.Contains(old, t) })
}

// set applies one annotation. It returns nil, or what would have been accepted
// ("" for an unknown key).
func (c *Controls) set(key, value string) *string {
	switch key {
	case KeyEnabled:
		return oneOf(value, "true", "false", &c.Enabled)
	case KeyScaleToZero:
		return oneOf(value, "prune", "keep", &c.PruneAtZero)
	case KeyStaleVolumes:
		return oneOf(value, "forbid", "reuse", &c.ForbidStale)
	case KeyDryRun:
		return oneOf(value, "true", "false", &c.DryRun)
	case KeyPaused:
		return oneOf(value, "true", "false", &c.Paused)
	case KeyDelay:
		return c.setDelay(value)
	case KeyScope:
		return c.setScope(value)
	case KeyTemplates:
		return c.setTemplates(value)
	case KeySnapshotClass:
		return c.setSnapshotClass(value)
	}
	return new(string)
}

func oneOf(value, yes, no string, into *bool) *string {
	*into = value == yes
	if value == yes || value == no {
		return nil
	}
	accepted := fmt.Sprintf("accepted are %q and %q", no, yes)
	return &accepted
}

func (c *Controls) setDelay(value string) *string {
	d, err := ParseDelay(value)
	if err != nil {
		accepted := err.Error()
		return &accepted
	}
	c.Delay = d
	return nil
}

func (c *Controls) setScope(value string) *string {
	if value != string(ScopeAll) && value != string(ScopeScaledDown) {
		c.Scope = ScopeScaledDown
		accepted := fmt.Sprintf("accepted are %q and %q", ScopeScaledDown, ScopeAll)
		return &accepted
	}
	c.Scope = Scope(value)
	return nil
}

func (c *Controls) setTemplates(value string) *string {
	names := strings.Split(value, ",")
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] || len(validation.IsDNS1123Subdomain(n)) > 0 {
			c.Templates = []string{}
			accepted := `accepted are names of volumeClaimTemplates, each once, separated by commas without spaces, such as "data,wal"`
			return &accepted
		}
		seen[n] = true
	}
	c.Templates = names
	return nil
}

func (c *Controls) setSnapshotClass(value string) *string {
	if len(validation.IsDNS1123Subdomain(value)) > 0 {
		accepted := "accepted is the name of a VolumeSnapshotClass"
		return &accepted
	}
	c.SnapshotClass = value
	return nil
}

// Equal says whether two sets of controls wish for the same.
func (c Controls) Equal(o Controls) bool {
	return reflect.DeepEqual(c, o)
}
