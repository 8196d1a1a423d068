package policy

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// defaultable are the controls that may have a cluster-wide default. Opting in is not
// among them: that is for each StatefulSet's owner to say.
var defaultable = []string{
	KeyDelay, KeyScope, KeyScaleToZero, KeyStaleVolumes, KeyTemplates, KeySnapshotClass, KeyPaused, KeyDryRun,
}

// DefaultDelay is the undo window where neither flag nor annotation says otherwise.
const DefaultDelay = 10 * time.Minute

// DefaultControls are the values that hold where an annotation is absent, given
// the cluster-wide default of the undo window.
func DefaultControls(delay time.Duration) Controls {
	return Controls{Delay: delay, Scope: ScopeScaledDown}
}

// SetDefault sets the cluster-wide default of a control, which takes what its annotation
// takes. An annotation wins over it, but for dry-run: a default of "true" holds for all.
// An error says what is accepted.
func (c *Controls) SetDefault(key, value string) error {
	if accepted := c.set(key, value); accepted != nil {
		return errors.New(*accepted)
	}
	return nil
}

// DefaultsText names the defaults that differ from the built-in ones, in one line. It goes into the record of a pending prune: a default that changed since the
// undo window began, at a restart of the pruner, must not make anything go at once.
func (c Controls) DefaultsText() string {
	var parts []string
	for _, key := range defaultable {
		if value := c.text(key); value != "" {
			parts = append(parts, Short(key)+"="+value)
		}
	}
	if c.IgnoreWorkloads {
		parts = append(parts, "workloads=ignored")
	}
	return strings.Join(parts, " ")
}

// text is the value of a control as its annotation would have it; "" is the built-in
// default.
func (c Controls) text(key string) string {
	when := func(set bool, value string) string {
		if set {
			return value
		}
		return ""
	}
	switch key {
	case KeyDelay:
		return when(c.Delay != DefaultDelay, FormatDelay(c.Delay))
	case KeyScope:
		return when(c.Scope == ScopeAll, string(ScopeAll))
	case KeyScaleToZero:
		return when(c.PruneAtZero, "prune")
	case KeyStaleVolumes:
		return when(c.ForbidStale, "forbid")
	case KeyTemplates:
		return strings.Join(c.Templates, ",")
	case KeyPaused:
		return when(c.Paused, "true")
	case KeyDryRun:
		return when(c.DryRun, "true")
	}
	return c.SnapshotClass
}

// DefaultsFrom are the defaults that a text of DefaultsText names. What it cannot read is
// left at the built-in default.
func DefaultsFrom(text string) Controls {
	c := DefaultControls(DefaultDelay)
	for part := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(part, "=")
		if key := Prefix + name; slices.Contains(defaultable, key) {
			_ = c.SetDefault(key, value) // an odd value turns into the safest one
		}
		if part == "workloads=ignored" {
			c.IgnoreWorkloads = true
		}
	}
	return c
}
