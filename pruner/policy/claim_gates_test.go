package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// judged is a verdict as it is told.
type judged struct {
	Claim, Template string
	Ordinal         int64
	Decision        policy.Decision
	Reason          policy.Reason
	Subject         string
	Message         string
}

func judge(plan policy.Plan, s policy.Snapshot) []judged {
	s.Set = plan.Set
	s.Sets = append(s.Sets, *plan.Set)
	var out []judged
	for _, v := range plan.Verdicts(s) {
		out = append(out, judged{v.Claim.Name, v.Template, v.Ordinal, v.Decision, v.Reason, v.Subject, v.Message})
	}
	return out
}

func unused(ordinal int64) judged {
	return judged{policy.ClaimName("data", "db", ordinal), "data", ordinal, policy.Delete, policy.ReasonUnused, "", ""}
}

// gateCase is about the claim data-db-3 of a set that went from 5 to 3. Its sibling
// data-db-4, about which there is nothing to say, is deleted whatever becomes of it.
type gateCase struct {
	set     []setOption
	claim   []claimOption
	sibling []claimOption
	sets    []appsv1.StatefulSet
	pods    []corev1.Pod
	others  []corev1.PersistentVolumeClaim

	workloads []policy.Workload
	snapshots []policy.VolumeSnapshot

	want judged
}

func (c gateCase) check(t *testing.T) {
	t.Helper()
	snapshot := policy.Snapshot{
		Sets: c.sets, Pods: c.pods, Workloads: c.workloads, VolumeSnapshots: c.snapshots,
		Claims: append(c.others, newClaim("data-db-4", c.sibling...), newClaim("data-db-3", c.claim...)),
	}
	want := c.want
	want.Claim, want.Template, want.Ordinal = "data-db-3", "data", 3
	if diff := cmp.Diff([]judged{want, unused(4)}, judge(ready(t, c.set...), snapshot)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var deleted = judged{Decision: policy.Delete, Reason: policy.ReasonUnused}

func inPhase(phase corev1.PersistentVolumeClaimPhase) claimOption {
	return func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = phase }
}

func ownedBy(apiVersion, kind, name string, uid types.UID, controller bool) claimOption {
	return func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{
			APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: &controller,
		})
	}
}

func heldBy(finalizers ...string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) { c.Finalizers = finalizers }
}

func terminating(c *corev1.PersistentVolumeClaim) {
	c.DeletionTimestamp = &metav1.Time{Time: thisSec}
	c.Finalizers = append(c.Finalizers, "kubernetes.io/pvc-protection", "example.com/backup")
}

func madeAt(when time.Time, managers ...string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) {
		c.CreationTimestamp = metav1.NewTime(when)
		for _, m := range managers {
			fields := `{"f:metadata":{"f:annotations":{}}}`
			if len(c.ManagedFields) == 0 { // the first made it
				fields = `{"f:spec":{"f:accessModes":{},"f:resources":{}}}`
			}
			c.ManagedFields = append(c.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: m, Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: when}, FieldsV1: metav1.NewFieldsV1(fields),
			})
		}
	}
}

func statusBy(manager string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) {
		c.ManagedFields = append(c.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Subresource: "status"})
	}
}

func markedKeep(value string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) { c.Annotations[policy.KeyKeep] = value }
}

func TestClaimWithNothingAgainstIt(t *testing.T) {
	for name, tt := range map[string]gateCase{
		"bound":                             {want: deleted},
		"pending":                           {claim: []claimOption{inPhase(corev1.ClaimPending)}, want: deleted},
		"lost":                              {claim: []claimOption{inPhase(corev1.ClaimLost)}, want: deleted},
		"with labels of somebody else":      {claim: []claimOption{func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"app": "other"} }}, want: deleted},
		"with the usual protection":         {claim: []claimOption{heldBy("kubernetes.io/pvc-protection")}, want: deleted},
		"marked not to be kept":             {claim: []claimOption{markedKeep("false")}, want: deleted},
		"owned by the set":                  {claim: []claimOption{ownedBy("apps/v1", "StatefulSet", "db", ownUID, true)}, want: deleted},
		"owned by the set's own former pod": {claim: []claimOption{ownedBy("v1", "Pod", "db-3", "gone", true)}, want: deleted},
		"owned by somebody, not controlled": {claim: []claimOption{ownedBy("v1", "ConfigMap", "backup", "c1", false)}, want: deleted},
		"its template is listed":            {set: []setOption{with(policy.KeyTemplates, "wal,data")}, want: deleted},
		"retention is written out":          {set: []setOption{whenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)}, want: deleted},
		"in dry run":                        {set: []setOption{with(policy.KeyDryRun, "true")}, want: deleted},
	} {
		t.Run(name, tt.check)
	}
}

func TestClaimThatItsOwnerWantsToKeep(t *testing.T) {
	kept := func(value string) judged {
		return judged{Decision: policy.Keep, Reason: policy.ReasonKeepAnnotation, Message: `keep: annotated pvc-pruner.io/keep="` + value + `"`}
	}
	for name, tt := range map[string]gateCase{
		"marked true":                    {claim: []claimOption{markedKeep("true")}, want: kept("true")},
		"marked with an odd value":       {claim: []claimOption{markedKeep("yes")}, want: kept("yes")},
		"marked with an empty value":     {claim: []claimOption{markedKeep("")}, want: kept("")},
		"marked with False":              {claim: []claimOption{markedKeep("False")}, want: kept("False")},
		"terminating and marked to keep": {claim: []claimOption{markedKeep("true"), terminating}, want: kept("true")},
	} {
		t.Run(name, tt.check)
	}
}

func TestClaimOfATemplateThatIsNotListed(t *testing.T) {
	plan := ready(t, with(policy.KeyTemplates, "wal"))
	plan.Set.Spec.VolumeClaimTemplates = templates("data", "wal")
	want := []judged{
		{"data-db-3", "data", 3, policy.Keep, policy.ReasonTemplateExcluded, "", "template data is not listed in pvc-pruner.io/templates"},
		{"wal-db-3", "wal", 3, policy.Delete, policy.ReasonUnused, "", ""},
	}
	snapshot := policy.Snapshot{Claims: []corev1.PersistentVolumeClaim{newClaim("wal-db-3"), newClaim("data-db-3")}}
	if diff := cmp.Diff(want, judge(plan, snapshot)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClaimOfAnotherOwner(t *testing.T) {
	owned := func(subject, message string) judged {
		return judged{Decision: policy.Keep, Reason: policy.ReasonOwnedByOther, Subject: subject, Message: message}
	}
	for name, tt := range map[string]gateCase{
		"an operator's object": {
			claim: []claimOption{ownedBy("db.example.com/v1", "Database", "orders", "c1", true)},
			want:  owned("Database/orders", "owned by Database orders"),
		},
		"a set of our name that is another object": {
			claim: []claimOption{ownedBy("apps/v1", "StatefulSet", "db", "6a7b", true)},
			want:  owned("StatefulSet/db", "owned by StatefulSet db"),
		},
		"a pod of another ordinal": {
			claim: []claimOption{ownedBy("v1", "Pod", "db-2", "p2", true)},
			want:  owned("Pod/db-2", "owned by Pod db-2"),
		},
		"another kind of the same group and the pod's name": {
			claim: []claimOption{ownedBy("v1", "ConfigMap", "db-3", "c3", true)},
			want:  owned("ConfigMap/db-3", "owned by ConfigMap db-3"),
		},
		"the same kind of another group and the pod's name": {
			claim: []claimOption{ownedBy("example.com/v1", "Pod", "db-3", "p3", true)},
			want:  owned("Pod/db-3", "owned by Pod db-3"),
		},
		"a controller beside an owner": {
			claim: []claimOption{ownedBy("apps/v1", "StatefulSet", "db", ownUID, false), ownedBy("v1", "ConfigMap", "backup", "c1", true)},
			want:  owned("ConfigMap/backup", "owned by ConfigMap backup"),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestClaimWhoseNameAnotherSetCouldBuild(t *testing.T) {
	other := func(name string, templateNames ...string) appsv1.StatefulSet {
		set := newSet(1, optedOut)
		set.Name, set.UID, set.Spec.VolumeClaimTemplates = name, types.UID("uid-of-"+name), templates(templateNames...)
		return *set
	}
	twin := other("db", "data")
	for name, tt := range map[string]struct {
		set, template string
		other         appsv1.StatefulSet
		claim         string
		shared        bool
	}{
		"template and set split elsewhere":                   {"petset", "alpha-beta", other("beta-petset", "alpha"), "alpha-beta-petset-3", true},
		"the same the other way round":                       {"beta-petset", "alpha", other("petset", "alpha-beta"), "alpha-beta-petset-3", true},
		"digits in the names":                                {"db", "data-0", other("0-db", "data"), "data-0-db-3", true},
		"one of the other's templates":                       {"db", "data-0", other("0-db", "wal", "data"), "data-0-db-3", true},
		"another object of our own name":                     {"db", "data", twin, "data-db-3", true},
		"a set whose name begins as ours":                    {"db", "data", other("db-3", "data"), "data-db-3", false},
		"a set whose name ends as ours":                      {"db", "data", other("my-db", "data"), "data-db-3", false},
		"a set with our template":                            {"db", "data", other("eb", "data"), "data-db-3", false},
		"a set without templates":                            {"db", "data", other("web"), "data-db-3", false},
		"a set that would need a leading zero for the claim": {"db-0", "data", other("db", "data"), "data-db-0-3", false},
	} {
		t.Run(name, func(t *testing.T) {
			plan := ready(t)
			plan.Set.Name, plan.Set.Spec.VolumeClaimTemplates = tt.set, templates(tt.template)
			want := judged{tt.claim, tt.template, 3, policy.Delete, policy.ReasonUnused, "", ""}
			if tt.shared {
				want.Decision, want.Reason, want.Subject = policy.Keep, policy.ReasonNameShared, "statefulset/"+tt.other.Name
				want.Message = "StatefulSet " + tt.other.Name + " could use a claim of this name too"
			}
			snapshot := policy.Snapshot{Sets: []appsv1.StatefulSet{tt.other}, Claims: []corev1.PersistentVolumeClaim{newClaim(tt.claim)}}
			if diff := cmp.Diff([]judged{want}, judge(plan, snapshot)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestClaimThatIsTerminating(t *testing.T) {
	gateCase{claim: []claimOption{terminating}, pods: []corev1.Pod{newPod("db-3", "data-db-3")}, want: judged{
		Decision: policy.Wait, Reason: policy.ReasonTerminating, Subject: "kubernetes.io/pvc-protection, example.com/backup",
		Message: "already terminating, held by the finalizers kubernetes.io/pvc-protection, example.com/backup",
	}}.check(t)
}

func TestClaimMadeSinceTheScaleDown(t *testing.T) {
	const controller = "kube-controller-manager"
	kept := func(when time.Time) judged {
		return judged{
			Decision: policy.Keep, Reason: policy.ReasonCreatedSince,
			Message: "created at " + when.Format(time.RFC3339) + ", after the scale-down",
		}
	}
	later := earlier.Add
	for name, tt := range map[string]gateCase{
		"a second before":                       {claim: []claimOption{madeAt(later(-time.Second), "kubectl-create")}, want: deleted},
		"in the same second, by a user":         {claim: []claimOption{madeAt(earlier, "kubectl-create")}, want: kept(earlier)},
		"in the same second, by nobody known":   {claim: []claimOption{madeAt(earlier)}, want: kept(earlier)},
		"in the same second, by the controller": {claim: []claimOption{madeAt(earlier, controller)}, want: deleted},
		"restored with the fields of its former life": {claim: []claimOption{madeAt(later(-time.Hour), controller), func(c *corev1.PersistentVolumeClaim) {
			c.CreationTimestamp = metav1.NewTime(later(time.Second))
		}}, want: kept(later(time.Second))},
		"a second later, by a user":             {claim: []claimOption{madeAt(later(time.Second), "kubectl-create")}, want: kept(later(time.Second))},
		"a second later, by nobody known":       {claim: []claimOption{madeAt(later(time.Second))}, want: kept(later(time.Second))},
		"a minute later, by a restore":          {claim: []claimOption{madeAt(later(time.Minute), "velero")}, want: kept(later(time.Minute))},
		"a moment later, by the controller":     {claim: []claimOption{madeAt(later(5*time.Second), controller)}, want: deleted},
		"and bound by somebody else since":      {claim: []claimOption{madeAt(later(time.Second), controller), statusBy("csi-provisioner")}, want: deleted},
		"a moment later, and touched by a user": {claim: []claimOption{madeAt(later(time.Second), controller, "kubectl-edit")}, want: deleted},
		"by the controller, but long after":     {claim: []claimOption{madeAt(later(6*time.Second), controller)}, want: kept(later(6 * time.Second))},
		"with scope all it counts for nothing":  {set: []setOption{with(policy.KeyScope, "all")}, claim: []claimOption{madeAt(later(time.Minute), "velero")}, want: deleted},
		"whose status it wrote says nothing":    {claim: []claimOption{madeAt(later(time.Second)), statusBy(controller)}, want: kept(later(time.Second))},
	} {
		t.Run(name, tt.check)
	}
}

func TestClaimWhosePodExists(t *testing.T) {
	waiting := func(pod string) judged {
		return judged{Decision: policy.Wait, Reason: policy.ReasonPodExists, Subject: "pod/db-3", Message: pod + " still exists"}
	}
	pod := func(change func(*corev1.Pod)) []corev1.Pod {
		p := newPod("db-3")
		change(&p)
		return []corev1.Pod{newPod("db-2", "data-db-2"), p}
	}
	for name, tt := range map[string]gateCase{
		"that is all that is known": {pods: pod(func(*corev1.Pod) {}), want: waiting("pod db-3")},
		"running": {
			pods: pod(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning }),
			want: waiting("pod db-3 on node n1 (Running)"),
		},
		"failed": {
			pods: pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			want: waiting("pod db-3 (Failed)"),
		},
		"terminating on a dead node": {
			pods: pod(func(p *corev1.Pod) {
				p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp = "n1", corev1.PodRunning, &metav1.Time{Time: earlier}
			}),
			want: waiting("pod db-3 on node n1 (terminating since 2026-03-01T11:57:00Z)"),
		},
		"of another ordinal": {pods: []corev1.Pod{newPod("db-33"), newPod("db-30"), newPod("db-03")}, want: deleted},
	} {
		t.Run(name, tt.check)
	}
}

func TestClaimThatAPodNames(t *testing.T) {
	waiting := func(message string) judged {
		return judged{Decision: policy.Wait, Reason: policy.ReasonInUse, Subject: "pod/restic", Message: message}
	}
	inPhase := func(phase corev1.PodPhase) []corev1.Pod {
		p := newPod("restic", "data-db-2", "data-db-3")
		p.Status.Phase = phase
		return []corev1.Pod{p}
	}
	ephemeral := newPod("restic")
	ephemeral.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	named := ephemeral.DeepCopy()
	named.Name, named.Spec.Volumes[0].Name = "data", "db-3" // its claim is called data-db-3
	for name, tt := range map[string]gateCase{
		"pending":   {pods: inPhase(corev1.PodPending), want: waiting("pod restic (Pending) uses it")},
		"running":   {pods: inPhase(corev1.PodRunning), want: waiting("pod restic (Running) uses it")},
		"succeeded": {pods: inPhase(corev1.PodSucceeded), want: waiting("pod restic (Succeeded) uses it")},
		"failed":    {pods: inPhase(corev1.PodFailed), want: waiting("pod restic (Failed) uses it")},
		"as an ephemeral volume": {pods: []corev1.Pod{*named}, want: judged{
			Decision: policy.Wait, Reason: policy.ReasonInUse, Subject: "pod/data", Message: "pod data uses it",
		}},
		"an ephemeral volume of another name": {pods: []corev1.Pod{ephemeral}, want: deleted},
		"another claim":                       {pods: []corev1.Pod{newPod("restic", "data-db-33", "data-db-2")}, want: deleted},
	} {
		t.Run(name, tt.check)
	}
}

func TestClaimThatIsBeingCloned(t *testing.T) {
	clone := func(phase corev1.PersistentVolumeClaimPhase, spec corev1.PersistentVolumeClaimSpec) []corev1.PersistentVolumeClaim {
		c := newClaim("copy", inPhase(phase))
		c.Spec = spec
		return []corev1.PersistentVolumeClaim{c}
	}
	from := func(kind, name string) corev1.PersistentVolumeClaimSpec {
		return corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{Kind: kind, Name: name}}
	}
	fromRef := func(namespace *string) corev1.PersistentVolumeClaimSpec {
		return corev1.PersistentVolumeClaimSpec{DataSourceRef: &corev1.TypedObjectReference{
			Kind: "PersistentVolumeClaim", Name: "data-db-3", Namespace: namespace,
		}}
	}
	here, elsewhere := "t", "u"
	waiting := judged{
		Decision: policy.Wait, Reason: policy.ReasonCloning, Subject: "persistentvolumeclaim/copy", Message: "claim copy is being cloned from it",
	}
	for name, tt := range map[string]gateCase{
		"by dataSource":                             {others: clone(corev1.ClaimPending, from("PersistentVolumeClaim", "data-db-3")), want: waiting},
		"by a claim without a phase yet":            {others: clone("", from("PersistentVolumeClaim", "data-db-3")), want: waiting},
		"by dataSourceRef":                          {others: clone(corev1.ClaimPending, fromRef(nil)), want: waiting},
		"by dataSourceRef that names our namespace": {others: clone(corev1.ClaimPending, fromRef(&here)), want: waiting},
		"by dataSourceRef into another namespace":   {others: clone(corev1.ClaimPending, fromRef(&elsewhere)), want: deleted},
		"the clone is bound":                        {others: clone(corev1.ClaimBound, from("PersistentVolumeClaim", "data-db-3")), want: deleted},
		"a clone of another claim":                  {others: clone(corev1.ClaimPending, from("PersistentVolumeClaim", "data-db-33")), want: deleted},
		"a snapshot of the same name is restored":   {others: clone(corev1.ClaimPending, from("VolumeSnapshot", "data-db-3")), want: deleted},
	} {
		t.Run(name, tt.check)
	}
}

func TestClaimOfWhichASnapshotIsTaken(t *testing.T) {
	gateCase{
		claim: []claimOption{heldBy("kubernetes.io/pvc-protection", "snapshot.storage.kubernetes.io/pvc-as-source-protection")},
		want:  judged{Decision: policy.Wait, Reason: policy.ReasonSnapshotting, Message: "a snapshot of it is being taken"},
	}.check(t)
}

func whenScaled(policyType appsv1.PersistentVolumeClaimRetentionPolicyType) setOption {
	return func(set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: policyType}
	}
}

func TestClaimThatKubernetesDeletesItself(t *testing.T) {
	want := []judged{{
		"data-db-3", "data", 3, policy.Wait, policy.ReasonBuiltIn, "",
		"persistentVolumeClaimRetentionPolicy.whenScaled is Delete: Kubernetes deletes it",
	}}
	plan := ready(t, whenScaled(appsv1.DeletePersistentVolumeClaimRetentionPolicyType))
	snapshot := policy.Snapshot{Claims: []corev1.PersistentVolumeClaim{newClaim("data-db-3")}}
	if diff := cmp.Diff(want, judge(plan, snapshot)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
