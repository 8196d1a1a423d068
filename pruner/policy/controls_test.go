package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

const (
	acceptedOnOff     = `accepted are "false" and "true"`
	acceptedScope     = `accepted are "scaled-down" and "all"`
	acceptedTemplates = `accepted are names of volumeClaimTemplates, each once, separated by commas without spaces, such as "data,wal"`
	acceptedClass     = "accepted is the name of a VolumeSnapshotClass"
	acceptedDelay     = `accepted are durations such as "0s", "30m", "36h", "1h30m", "7d" or "2w" (units w d h m s ms), from 0s up to 3650d`
)

func TestReadControls(t *testing.T) {
	enabled := func(change func(*policy.Controls)) policy.Controls {
		c := defaults
		c.Enabled = true
		change(&c)
		return c
	}
	odd := func(key, value, accepted string, change func(*policy.Controls)) policy.Controls {
		c := enabled(change)
		c.Invalid = []policy.Problem{{Key: key, Value: value, Accepted: accepted}}
		return c
	}
	as := func(*policy.Controls) {}
	for name, tt := range map[string]struct {
		key, value string
		want       policy.Controls
	}{
		"what is absent keeps its default":          {policy.KeyEnabled, "true", enabled(as)},
		"an explicit opt-out":                       {policy.KeyEnabled, "false", defaults},
		"an odd opt-in is none":                     {policy.KeyEnabled, "TRUE", odd(policy.KeyEnabled, "TRUE", acceptedOnOff, func(c *policy.Controls) { c.Enabled = false })},
		"an empty opt-in is none":                   {policy.KeyEnabled, "", odd(policy.KeyEnabled, "", acceptedOnOff, func(c *policy.Controls) { c.Enabled = false })},
		"an opt-in with a space is none":            {policy.KeyEnabled, " true", odd(policy.KeyEnabled, " true", acceptedOnOff, func(c *policy.Controls) { c.Enabled = false })},
		"an opt-in by number is none":               {policy.KeyEnabled, "1", odd(policy.KeyEnabled, "1", acceptedOnOff, func(c *policy.Controls) { c.Enabled = false })},
		"a delay":                                   {policy.KeyDelay, "7d", enabled(func(c *policy.Controls) { c.Delay = 168 * time.Hour })},
		"no delay":                                  {policy.KeyDelay, "0s", enabled(func(c *policy.Controls) { c.Delay = 0 })},
		"an odd delay leaves the default":           {policy.KeyDelay, "soon", odd(policy.KeyDelay, "soon", acceptedDelay, as)},
		"a delay of centuries is odd":               {policy.KeyDelay, "200000d", odd(policy.KeyDelay, "200000d", acceptedDelay, as)},
		"scope all":                                 {policy.KeyScope, "all", enabled(func(c *policy.Controls) { c.Scope = policy.ScopeAll })},
		"scope scaled-down":                         {policy.KeyScope, "scaled-down", enabled(as)},
		"an odd scope is the narrow one":            {policy.KeyScope, "All", odd(policy.KeyScope, "All", acceptedScope, as)},
		"prune at zero":                             {policy.KeyScaleToZero, "prune", enabled(func(c *policy.Controls) { c.PruneAtZero = true })},
		"keep at zero":                              {policy.KeyScaleToZero, "keep", enabled(as)},
		"an odd wish at zero keeps":                 {policy.KeyScaleToZero, "true", odd(policy.KeyScaleToZero, "true", `accepted are "keep" and "prune"`, as)},
		"old volumes forbidden":                     {policy.KeyStaleVolumes, "forbid", enabled(func(c *policy.Controls) { c.ForbidStale = true })},
		"old volumes reused":                        {policy.KeyStaleVolumes, "reuse", enabled(as)},
		"an odd wish for old volumes reuses":        {policy.KeyStaleVolumes, "no", odd(policy.KeyStaleVolumes, "no", `accepted are "reuse" and "forbid"`, as)},
		"one template":                              {policy.KeyTemplates, "data", enabled(func(c *policy.Controls) { c.Templates = []string{"data"} })},
		"two templates":                             {policy.KeyTemplates, "data,wal", enabled(func(c *policy.Controls) { c.Templates = []string{"data", "wal"} })},
		"an empty list of templates allows none":    {policy.KeyTemplates, "", odd(policy.KeyTemplates, "", acceptedTemplates, func(c *policy.Controls) { c.Templates = []string{} })},
		"templates with a space allow none":         {policy.KeyTemplates, "data, wal", odd(policy.KeyTemplates, "data, wal", acceptedTemplates, func(c *policy.Controls) { c.Templates = []string{} })},
		"a template named twice allows none":        {policy.KeyTemplates, "data,data", odd(policy.KeyTemplates, "data,data", acceptedTemplates, func(c *policy.Controls) { c.Templates = []string{} })},
		"a comma at the end allows none":            {policy.KeyTemplates, "data,", odd(policy.KeyTemplates, "data,", acceptedTemplates, func(c *policy.Controls) { c.Templates = []string{} })},
		"dry run":                                   {policy.KeyDryRun, "true", enabled(func(c *policy.Controls) { c.DryRun = true })},
		"an odd dry run":                            {policy.KeyDryRun, "yes", odd(policy.KeyDryRun, "yes", acceptedOnOff, as)},
		"paused":                                    {policy.KeyPaused, "true", enabled(func(c *policy.Controls) { c.Paused = true })},
		"an odd pause":                              {policy.KeyPaused, "yes", odd(policy.KeyPaused, "yes", acceptedOnOff, as)},
		"a snapshot class":                          {policy.KeySnapshotClass, "csi.example", enabled(func(c *policy.Controls) { c.SnapshotClass = "csi.example" })},
		"an odd snapshot class":                     {policy.KeySnapshotClass, "Fast Class", odd(policy.KeySnapshotClass, "Fast Class", acceptedClass, as)},
		"an empty snapshot class is odd":            {policy.KeySnapshotClass, "", odd(policy.KeySnapshotClass, "", acceptedClass, as)},
		"a misspelt key of ours":                    {policy.Prefix + "dely", "1h", odd(policy.Prefix+"dely", "1h", "", as)},
		"a key of ours in capital letters":          {policy.Prefix + "Delay", "1h", odd(policy.Prefix+"Delay", "1h", "", as)},
		"the mark of a claim has no place on a set": {policy.KeyKeep, "true", odd(policy.KeyKeep, "true", "", as)},
		"a key of somebody else":                    {"example.com/delay", "soon", enabled(as)},
		"our own bookkeeping is no control":         {policy.KeyPriorReplicas, "many", enabled(as)},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{policy.KeyEnabled: "true", tt.key: tt.value}
			if diff := cmp.Diff(tt.want, policy.ReadControls(annotations, defaults)); diff != "" {
				t.Errorf("ReadControls(%v) (-want +got):\n%s", annotations, diff)
			}
		})
	}
}

func TestReadControlsListsEveryProblemInTheOrderOfTheKeys(t *testing.T) {
	annotations := map[string]string{policy.KeyScope: "none", policy.KeyDryRun: "no", policy.KeyEnabled: "true", policy.Prefix + "x": ""}
	want := []policy.Problem{
		{Key: policy.KeyDryRun, Value: "no", Accepted: acceptedOnOff},
		{Key: policy.KeyScope, Value: "none", Accepted: acceptedScope},
		{Key: policy.Prefix + "x"},
	}
	if diff := cmp.Diff(want, policy.ReadControls(annotations, defaults).Invalid); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadControlsOfNothingIsTheDefault(t *testing.T) {
	if diff := cmp.Diff(defaults, policy.ReadControls(nil, defaults)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAProblemSaysWhatIsAccepted(t *testing.T) {
	for want, problem := range map[string]policy.Problem{
		`pvc-pruner.io/scope: "al\nl" is not accepted; ` + acceptedScope: {Key: policy.KeyScope, Value: "al\nl", Accepted: acceptedScope},
		"pvc-pruner.io/dely is not an annotation of pvc-pruner on a StatefulSet; accepted are: pvc-pruner.io/enabled, pvc-pruner.io/delay, " +
			"pvc-pruner.io/scope, pvc-pruner.io/scale-to-zero, pvc-pruner.io/stale-volumes, pvc-pruner.io/templates, pvc-pruner.io/dry-run, " +
			"pvc-pruner.io/paused, pvc-pruner.io/snapshot-class": {Key: policy.Prefix + "dely", Value: "1h"},
	} {
		if diff := cmp.Diff(want, problem.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestCheckControls(t *testing.T) {
	odd := map[string]string{policy.KeyEnabled: "true", policy.KeyDelay: "soon"}
	problem := []policy.Problem{{Key: policy.KeyDelay, Value: "soon", Accepted: acceptedDelay}}
	for name, tt := range map[string]struct {
		old, annotations map[string]string
		want             []policy.Problem
	}{
		"a new object with an odd value is refused":    {nil, odd, problem},
		"adding an odd value is refused":               {map[string]string{policy.KeyEnabled: "true"}, odd, problem},
		"turning a good value odd is refused":          {map[string]string{policy.KeyDelay: "10m"}, odd, problem},
		"turning an odd value into another is refused": {map[string]string{policy.KeyDelay: "later"}, odd, problem},
		"an odd value that stays as it was may stay":   {odd, odd, nil},
		"taking an odd value away is fine":             {odd, map[string]string{policy.KeyEnabled: "true"}, nil},
		"correcting an odd value is fine":              {odd, map[string]string{policy.KeyDelay: "10m"}, nil},
		"good values are fine":                         {nil, map[string]string{policy.KeyEnabled: "true", policy.KeyDelay: "10m"}, nil},
		"an empty value is not an absent one":          {map[string]string{}, map[string]string{policy.KeyDelay: ""}, []policy.Problem{{Key: policy.KeyDelay, Accepted: acceptedDelay}}},
		"forged bookkeeping is no matter of controls":  {nil, map[string]string{policy.KeyRecord: "{"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, policy.CheckControls(tt.old, tt.annotations)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWidened(t *testing.T) {
	type annotations map[string]string
	for name, tt := range map[string]struct {
		old, now annotations
		want     bool
	}{
		"nothing changed":                     {annotations{policy.KeyDelay: "1h"}, annotations{policy.KeyDelay: "1h"}, false},
		"a shorter delay":                     {annotations{policy.KeyDelay: "1h"}, annotations{policy.KeyDelay: "59m"}, true},
		"a longer delay":                      {annotations{policy.KeyDelay: "1h"}, annotations{policy.KeyDelay: "61m"}, false},
		"a long delay taken away":             {annotations{policy.KeyDelay: "1h"}, nil, true},
		"a short delay taken away":            {annotations{policy.KeyDelay: "1m"}, nil, false},
		"to scope all":                        {nil, annotations{policy.KeyScope: "all"}, true},
		"back from scope all":                 {annotations{policy.KeyScope: "all"}, nil, false},
		"to prune at zero":                    {nil, annotations{policy.KeyScaleToZero: "prune"}, true},
		"to keep at zero":                     {annotations{policy.KeyScaleToZero: "prune"}, annotations{policy.KeyScaleToZero: "keep"}, false},
		"one more template":                   {annotations{policy.KeyTemplates: "data"}, annotations{policy.KeyTemplates: "data,wal"}, true},
		"another template":                    {annotations{policy.KeyTemplates: "data"}, annotations{policy.KeyTemplates: "wal"}, true},
		"one template less":                   {annotations{policy.KeyTemplates: "data,wal"}, annotations{policy.KeyTemplates: "wal"}, false},
		"the same templates in another order": {annotations{policy.KeyTemplates: "data,wal"}, annotations{policy.KeyTemplates: "wal,data"}, false},
		"some templates, then all":            {annotations{policy.KeyTemplates: "data"}, nil, true},
		"all templates, then some":            {nil, annotations{policy.KeyTemplates: "data"}, false},
		"a pause":                             {nil, annotations{policy.KeyPaused: "true"}, false},
		"a pause lifted":                      {annotations{policy.KeyPaused: "true"}, annotations{policy.KeyPaused: "false"}, true},
		"a pause turned odd":                  {annotations{policy.KeyPaused: "true"}, annotations{policy.KeyPaused: "off"}, true},
		"a dry run":                           {nil, annotations{policy.KeyDryRun: "true"}, false},
		"the dry run is over":                 {annotations{policy.KeyDryRun: "true"}, nil, true},
		"old volumes are forbidden, which leaves no delay": {nil, annotations{policy.KeyStaleVolumes: "forbid"}, true},
		"old volumes are reused again":                     {annotations{policy.KeyStaleVolumes: "forbid"}, nil, false},
		"a snapshot is asked for":                          {nil, annotations{policy.KeySnapshotClass: "fast"}, false},
		"no snapshot is asked for any more":                {annotations{policy.KeySnapshotClass: "fast"}, nil, true},
		"another snapshot class":                           {annotations{policy.KeySnapshotClass: "fast"}, annotations{policy.KeySnapshotClass: "slow"}, false},
		"an odd value is corrected":                        {annotations{policy.KeyDryRun: "no"}, annotations{policy.KeyDryRun: "false"}, true},
		"an unknown key goes":                              {annotations{policy.Prefix + "dely": "1h"}, nil, true},
		"a value turns odd":                                {nil, annotations{policy.KeyDryRun: "no"}, false},
		"one thing is narrowed, another widens":            {annotations{policy.KeyDelay: "1h"}, annotations{policy.KeyDelay: "1m", policy.KeyTemplates: "data"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policy.ReadControls(tt.now, defaults).Widened(policy.ReadControls(tt.old, defaults)); got != tt.want {
				t.Errorf("from %v to %v: widened = %v", tt.old, tt.now, got)
			}
		})
	}
}

func TestOptedIn(t *testing.T) {
	for value, want := range map[string]bool{
		"true": true, "false": false, "": false, "TRUE": false, "True": false, " true": false, "true ": false, "true\n": false, "1": false, "yes": false,
	} {
		if got := policy.OptedIn(map[string]string{policy.KeyEnabled: value}); got != want {
			t.Errorf("%q opts in: %v", value, got)
		}
	}
	if policy.OptedIn(nil) || policy.OptedIn(map[string]string{"enabled": "true"}) {
		t.Error("opted in without the annotation")
	}
}

func TestAllowsTemplate(t *testing.T) {
	for name, tt := range map[string]struct {
		templates []string
		want      bool
	}{
		"no list allows all":         {nil, true},
		"a list that names it":       {[]string{"wal", "data"}, true},
		"a list that names others":   {[]string{"wal"}, false},
		"an empty list allows none":  {[]string{}, false},
		"a part of the name is none": {[]string{"dat", "data2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (policy.Controls{Templates: tt.templates}).AllowsTemplate("data"); got != tt.want {
				t.Errorf("allowed = %v", got)
			}
		})
	}
}

func TestControlsAreEqualOnlyIfTheyWishForTheSame(t *testing.T) {
	read := func(key, value string) policy.Controls {
		return policy.ReadControls(map[string]string{policy.KeyEnabled: "true", key: value}, defaults)
	}
	if !read(policy.KeyDelay, "60m").Equal(read(policy.KeyDelay, "1h")) {
		t.Error("the same delay, written otherwise, is another wish")
	}
	for _, other := range []policy.Controls{
		read(policy.KeyDelay, "1m"), read(policy.KeyPaused, "true"), read(policy.KeyTemplates, "data"), read(policy.KeyDryRun, "odd"), {},
	} {
		if read(policy.KeyDelay, "1h").Equal(other) {
			t.Errorf("%+v is no other wish", other)
		}
	}
}

// What cannot be read holds the whole set, however the rest reads.
func FuzzControls(f *testing.F) {
	f.Add("true", policy.KeyDelay, "10m", policy.KeyScope, "all")
	f.Add("true", policy.KeyDelay, "-10m", policy.KeyScope, "")
	f.Add("TRUE", policy.KeyTemplates, "data,wal", policy.KeyPaused, "yes")
	f.Add(" true", policy.KeyTemplates, ",", policy.KeyDryRun, "1")
	f.Add("false", policy.KeySnapshotClass, "Fast Class", policy.KeyScaleToZero, "prune")
	f.Add("", policy.Prefix, "x", policy.KeyStaleVolumes, "forbid")
	f.Add("true", policy.Prefix+"dely", "1h", policy.KeyKeep, "true")
	f.Add("true", policy.KeyRecord, "{", "example.com/x", "\x00")
	f.Fuzz(func(t *testing.T, enabled, key1, value1, key2, value2 string) {
		plan := ready(t, with(key1, value1, key2, value2, policy.KeyEnabled, enabled))
		if got := plan.Controls.Enabled; got != (enabled == "true") || policy.OptedIn(plan.Set.Annotations) != got {
			t.Errorf("enabled=%q reads as %v", enabled, got)
		}
		checkValues(t, plan.Controls)
		checkHeld(t, plan)
		checkRefused(t, plan)
	})
}

func checkValues(t *testing.T, c policy.Controls) {
	t.Helper()
	if c.Delay < 0 || c.Delay > policy.MaxDelay || c.Scope != policy.ScopeAll && c.Scope != policy.ScopeScaledDown {
		t.Errorf("delay %v, scope %q", c.Delay, c.Scope)
	}
	for _, p := range c.Invalid {
		if !strings.HasPrefix(p.Key, policy.Prefix) || p.String() == "" {
			t.Errorf("problem %+v", p)
		}
	}
}

// checkHeld: what is not opted in, or cannot be read, holds the whole set.
func checkHeld(t *testing.T, plan policy.Plan) {
	t.Helper()
	want := policy.ReasonInvalidAnnotation
	switch {
	case !plan.Controls.Enabled:
		want = policy.ReasonNotOptedIn
	case len(plan.Controls.Invalid) == 0:
		return
	}
	if hold := plan.SetGates(ownUID, now); hold == nil || hold.Reason != want || hold.Decision != policy.Keep {
		t.Errorf("%v with problems %v is held by %+v, want %s", plan.Set.Annotations, plan.Controls.Invalid, hold, want)
	}
}

// checkRefused: the webhook refuses what the pruner cannot read, unless it stood there before.
func checkRefused(t *testing.T, plan policy.Plan) {
	t.Helper()
	annotations := plan.Set.Annotations
	if diff := cmp.Diff(plan.Controls.Invalid, policy.CheckControls(nil, annotations)); diff != "" {
		t.Errorf("the webhook and the pruner differ (-pruner +webhook):\n%s", diff)
	}
	if stays := policy.CheckControls(annotations, annotations); stays != nil {
		t.Errorf("an unchanged object is refused: %v", stays)
	}
}
