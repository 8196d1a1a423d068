package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// Names that can be mistaken for each other wherever template, set and ordinal meet.
var (
	setNames      = rapid.SampledFrom([]string{"db", "db-1", "0-db", "a-db", "db-a", "1-db"})
	templateNames = rapid.SampledFrom([]string{"data", "data-0", "data-a", "data-db", "data-1"})
	ordinalDigits = rapid.SampledFrom([]string{"0", "1", "2", "3", "4", "5", "6", "10", "03", "-1", ""})
)

// highest is above every ordinal that ordinalDigits can make.
const highest = 20

// A claim is deleted if, and only if, nothing speaks for keeping it. What speaks for it
// is worked out here anew, from the snapshot alone and by building names, not reading them.
func TestAClaimIsDeletedOnlyIfNothingSpeaksForIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan, snapshot := drawSnapshot(t)
		verdicts := map[types.UID]policy.Verdict{}
		for _, v := range plan.Verdicts(snapshot) {
			verdicts[v.Claim.UID] = v
		}
		for i := range snapshot.Claims {
			claim := &snapshot.Claims[i]
			v, judged := verdicts[claim.UID]
			why := speaksFor(plan, snapshot, claim)
			if deletes := judged && v.Decision == policy.Delete; deletes != (len(why) == 0) {
				t.Fatalf("%s: verdict %q (%s), but this speaks for it: %v", claim.Name, v.Decision, v.Reason, why)
			}
			if judged && (v.Reason == "" || v.Decision != policy.Delete && v.Message == "") {
				t.Fatalf("%s: verdict without a word why: %+v", claim.Name, v)
			}
		}
	})
}

// reasons are what speaks for keeping a claim.
type reasons []string

func (r *reasons) add(speaks bool, text string) {
	if speaks {
		*r = append(*r, text)
	}
}

func speaksFor(plan policy.Plan, s policy.Snapshot, claim *corev1.PersistentVolumeClaim) (why reasons) {
	_, ordinal := builtBy(plan.Set, claim.Name)
	why.ofTheSet(plan, claim.Name)
	why.ofOthers(s, claim.Name)
	why.add(slices.ContainsFunc(s.Pods, func(pod corev1.Pod) bool {
		return pod.Name == fmt.Sprintf("%s-%d", plan.Set.Name, ordinal)
	}), "its pod is there")
	why.ofTheClaim(claim)
	scaledDown := plan.Controls.Scope != policy.ScopeAll
	why.add(scaledDown && !claim.CreationTimestamp.Time.Before(plan.Bookkeeping.Window.Since), "it was made since")
	return why
}

func (r *reasons) ofTheSet(plan policy.Plan, claim string) {
	template, ordinal := builtBy(plan.Set, claim)
	start := int64(policy.Start(plan.Set))
	r.add(ordinal < 0, "the set does not build its name")
	r.add(ordinal < start, "it is below the start")
	r.add(ordinal < start+int64(*plan.Set.Spec.Replicas), "it is in range")
	r.add(plan.Controls.Scope != policy.ScopeAll && ordinal >= start+int64(*plan.Bookkeeping.Prior), "it was not scaled down")
	r.add(!plan.Controls.AllowsTemplate(template), "its template is not listed")
	r.add(policy.BuiltInDeletes(plan.Set), "Kubernetes deletes it")
}

func (r *reasons) ofOthers(s policy.Snapshot, claim string) {
	for i := range s.Sets {
		_, n := builtBy(&s.Sets[i], claim)
		r.add(s.Sets[i].UID != s.Set.UID && n >= 0, "another set builds its name: "+s.Sets[i].Name)
	}
	for i := range s.Pods {
		for _, v := range s.Pods[i].Spec.Volumes {
			r.add(v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim, "pod names it: "+s.Pods[i].Name)
			r.add(v.Ephemeral != nil && s.Pods[i].Name+"-"+v.Name == claim, "pod made it: "+s.Pods[i].Name)
		}
	}
	for i := range s.Claims {
		source := s.Claims[i].Spec.DataSource
		r.add(source != nil && source.Name == claim && s.Claims[i].Status.Phase != corev1.ClaimBound, "it is being cloned")
	}
}

func (r *reasons) ofTheClaim(claim *corev1.PersistentVolumeClaim) {
	for _, owner := range claim.OwnerReferences {
		r.add(*owner.Controller, "a controller that is not the set owns it")
	}
	keep, marked := claim.Annotations[policy.KeyKeep]
	r.add(marked && keep != "false", "it is marked to be kept")
	r.add(claim.DeletionTimestamp != nil, "it is terminating")
	r.add(len(claim.Finalizers) > 0, "a snapshot is being taken")
}

// builtBy finds the template and ordinal from which the set would build the name, by
// trying all; -1 for none.
func builtBy(set *appsv1.StatefulSet, claim string) (template string, ordinal int64) {
	for _, t := range set.Spec.VolumeClaimTemplates {
		for n := range int64(highest) {
			if claim == fmt.Sprintf("%s-%s-%d", t.Name, set.Name, n) {
				return t.Name, n
			}
		}
	}
	return "", -1
}

func drawSnapshot(t *rapid.T) (policy.Plan, policy.Snapshot) {
	set := drawSet(t, 0)
	start := rapid.Int32Range(0, 2).Draw(t, "start")
	target := rapid.Int32Range(0, 3).Draw(t, "replicas")
	startingAt(start)(set)
	replicas(target)(set)
	remembering(pending(target+rapid.Int32Range(0, 4).Draw(t, "scaled down"), target, earlier, from(start)))(set)
	with(policy.KeyScope, rapid.SampledFrom([]string{"scaled-down", "scaled-down", "all"}).Draw(t, "scope"))(set)
	if rarely(t, "templates listed") {
		with(policy.KeyTemplates, templateNames.Draw(t, "listed template"))(set)
	}
	if rarely(t, "built-in retention") {
		whenScaled(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)(set)
	}
	snapshot := policy.Snapshot{Set: set, Sets: []appsv1.StatefulSet{*set}}
	for i := range rapid.IntRange(0, 2).Draw(t, "other sets") {
		other := drawSet(t, i+1)
		if rarely(t, "confusable") {
			splitElsewhere(other, set)
		}
		snapshot.Sets = append(snapshot.Sets, *other)
	}
	names := rapid.SliceOfNDistinct(rapid.Custom(drawClaimName(set)), 1, 8, rapid.ID).Draw(t, "claims")
	for _, name := range names {
		snapshot.Claims = append(snapshot.Claims, drawClaim(t, name))
	}
	for range rapid.IntRange(0, 2).Draw(t, "pods") {
		snapshot.Pods = append(snapshot.Pods, drawPod(t, set, names))
	}
	if rarely(t, "clone") {
		clone := newClaim("copy", inPhase(rapid.SampledFrom([]corev1.PersistentVolumeClaimPhase{corev1.ClaimPending, corev1.ClaimBound}).Draw(t, "clone phase")))
		clone.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: rapid.SampledFrom(names).Draw(t, "source")}
		snapshot.Claims = append(snapshot.Claims, clone)
	}
	return policy.NewPlan(set, defaults), snapshot
}

func rarely(t *rapid.T, what string) bool {
	return rapid.Bool().Draw(t, what) && rapid.Bool().Draw(t, "really")
}

func drawSet(t *rapid.T, i int) *appsv1.StatefulSet {
	set := newSet(1)
	set.Name = setNames.Draw(t, "set")
	set.UID = types.UID(fmt.Sprint("set-", i))
	set.Spec.VolumeClaimTemplates = templates(rapid.SliceOfNDistinct(templateNames, 1, 2, rapid.ID).Draw(t, "templates")...)
	return set
}

// splitElsewhere names a set and its template so that it builds the same names as set
// does, with another dash between template and set, if there is another dash.
func splitElsewhere(other, set *appsv1.StatefulSet) {
	whole := set.Spec.VolumeClaimTemplates[0].Name + "-" + set.Name
	first, last := strings.Index(whole, "-"), strings.LastIndex(whole, "-")
	if first == len(set.Spec.VolumeClaimTemplates[0].Name) {
		first = last
	}
	other.Name, other.Spec.VolumeClaimTemplates = whole[first+1:], templates(whole[:first])
}

// drawClaimName makes half of the names from the set's own parts.
func drawClaimName(set *appsv1.StatefulSet) func(*rapid.T) string {
	return func(t *rapid.T) string {
		name, template := set.Name, set.Spec.VolumeClaimTemplates[0].Name
		if rapid.Bool().Draw(t, "foreign") {
			name, template = setNames.Draw(t, "set part"), templateNames.Draw(t, "template part")
		}
		return template + "-" + name + "-" + ordinalDigits.Draw(t, "ordinal part")
	}
}

func drawClaim(t *rapid.T, name string) corev1.PersistentVolumeClaim {
	nothing := func(*corev1.PersistentVolumeClaim) {}
	return newClaim(name, rapid.SampledFrom([]claimOption{
		nothing, nothing, nothing, nothing,
		inPhase(corev1.ClaimLost), markedKeep("true"), markedKeep(""), markedKeep("false"), terminating,
		ownedBy("db.example.com/v1", "Database", "orders", "c1", true), ownedBy("db.example.com/v1", "Database", "orders", "c1", false),
		madeAt(earlier), madeAt(earlier.Add(time.Second), "velero"), heldBy("snapshot.storage.kubernetes.io/pvc-as-source-protection"),
	}).Draw(t, "claim"))
}

func drawPod(t *rapid.T, set *appsv1.StatefulSet, claims []string) corev1.Pod {
	name := rapid.SampledFrom([]string{"restic", set.Name + "-1", set.Name + "-3", set.Name + "-4"}).Draw(t, "pod")
	claim := rapid.SampledFrom(claims).Draw(t, "claim of the pod")
	switch {
	case rapid.Bool().Draw(t, "names the claim"):
		return newPod(name, claim)
	case rapid.Bool().Draw(t, "made the claim"): // as a generic ephemeral volume
		pod, volume, _ := strings.Cut(claim, "-")
		made := newPod(pod)
		made.Spec.Volumes = []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		return made
	}
	return newPod(name)
}
