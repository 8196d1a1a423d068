package pruner

import (
	"context"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Reasons of Events on a StatefulSet.
const (
	// an undo window began: what will go, when, and how to undo it.
	// Next: nothing; to keep the claims, scale back to the named count before the time, or annotate a claim pvc-pruner.io/keep=true.
	EventScheduled = "PruneScheduled"
	// a change ended it, wholly or in part.
	// Next: nothing; the claims that are named stay.
	EventCancelled = "PruneCancelled"
	// a claim cannot go yet: what it waits for (pod and node, workload, clone, VolumeSnapshot); or the set is paused.
	// Next: most often nothing, it goes on by itself; else end what is named, or remove pvc-pruner.io/paused.
	EventWaiting = "PruneWaiting"
	// a claim is finally kept, and why; or the set is scaled to zero.
	// Next: nothing, if the claim shall stay; else remove what keeps it (see Reasons) or delete it by hand.
	EventSkipped = "PruneSkipped"
	// a claim is terminating and held by finalizers, which are named.
	// Next: find whose finalizer it is, and have that program finish; copy the data before, if you still need it.
	EventBlocked = "PruneBlocked"
	// what would have gone, with the bytes.
	// Next: check the names; remove pvc-pruner.io/dry-run to let them go.
	EventDryRun = "PruneDryRun"
	// what went, and who last set replicas, as far as Kubernetes tells.
	// Next: nothing; what a reclaim policy Retain or a VolumeSnapshot kept can be used again.
	EventPruned = "Pruned"
	// the API server refused a deletion, or its end is not known.
	// Next: read the error, most often a missing right or another admission webhook; it is tried again.
	EventFailed = "PruneFailed"
	// a PersistentVolume stays because its reclaim policy is Retain.
	// Next: use the volume through a new claim, or delete it by hand.
	EventVolumeRetained = "VolumeRetained"
	// our own webhook does not answer, or would not hold a scale-up; nothing is deleted until it does.
	// Next: see that pods of pvc-pruner are ready and that the API server reaches them; see docs/install.md, Troubleshooting.
	EventFenceNotEnforced = "FenceNotEnforced"
	// an annotation cannot be understood; nothing is deleted until it is corrected.
	// Next: correct the annotation; the note says what is accepted.
	EventInvalidAnnotation = "InvalidAnnotation"
	// another controller owns the set, and may scale it or delete its claims in ways of its own.
	// Next: ask whether that operator may scale the set down; else opt it out.
	EventOperatorManaged = "OperatorManaged"
)

const (
	// repeatAfter: what was said already is said again after this time, if it still holds.
	repeatAfter = time.Hour
	// settleFor: of one reason, a state that changes faster than this waits for a later
	// look, so that pods that go one by one do not make one Event each.
	settleFor = 20 * time.Second
	// eventDeadline bounds one write of an Event; a report must not hold up work.
	eventDeadline = 5 * time.Second
	// maxNote is the API's limit for the note of an Event, in bytes.
	maxNote = 1024
)

// notice is one thing to say about a StatefulSet.
type notice struct {
	reason string
	// about tells whether it was said before: what happened, less what only varies in
	// wording. Empty: it is a thing that happens once, and is always said.
	about string
	note  string
	// settles: it is about a state that may change quickly, pod by pod; see settleFor.
	settles bool
}

func (n notice) eventType() string {
	switch n.reason {
	case EventFailed, EventBlocked, EventFenceNotEnforced, EventInvalidAnnotation, EventOperatorManaged:
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// reporter writes Events. It writes them itself, because client-go's recorder drops
// the note of a second Event with the same reason on an unchanged object, and may
// lose the last ones at shutdown, which are those that say what was deleted.
type reporter struct {
	client kubernetes.Interface
	now    func() time.Time

	mu   sync.Mutex
	said map[types.UID]map[string]saying
}

type saying struct {
	about string
	at    time.Time
}

func newReporter(client kubernetes.Interface, now func() time.Time) *reporter {
	return &reporter{client: client, now: now, said: map[types.UID]map[string]saying{}}
}

// say writes the notice unless it was said not long ago.
func (r *reporter) say(ctx context.Context, set *appsv1.StatefulSet, n notice) {
	if !r.due(set.UID, n) {
		return
	}
	log := ctrl.LoggerFrom(ctx)
	log.Info("Reported", "event", n.reason, "note", n.note)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventDeadline)
	defer cancel()
	if _, err := r.client.EventsV1().Events(set.Namespace).Create(ctx, r.event(set, n), metav1.CreateOptions{}); err != nil {
		log.Error(err, "Event not written", "event", n.reason)
	}
}

// due decides, and remembers that it was said.
func (r *reporter) due(uid types.UID, n notice) bool {
	if n.about == "" {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, said := r.said[uid][n.reason]
	quiet := repeatAfter
	if last.about != n.about {
		quiet = 0
		if n.settles {
			quiet = settleFor
		}
	}
	now := r.now()
	if said && now.Sub(last.at) < quiet {
		return false
	}
	if r.said[uid] == nil {
		r.said[uid] = map[string]saying{}
	}
	r.said[uid][n.reason] = saying{about: n.about, at: now}
	return true
}

// forget drops what was said about sets that are gone or opted out.
func (r *reporter) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, uid)
}

func (r *reporter) event(set *appsv1.StatefulSet, n notice) *eventsv1.Event {
	now := r.now()
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{GenerateName: eventPrefix(set.Name), Namespace: set.Namespace},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: FieldManager,
		ReportingInstance:   FieldManager,
		Action:              "Prune",
		Reason:              n.reason,
		Type:                n.eventType(),
		Note:                clip(n.note, maxNote),
		Regarding: corev1.ObjectReference{
			APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet",
			Namespace: set.Namespace, Name: set.Name, UID: set.UID,
		},
	}
}

// eventPrefix leaves room for the suffix that the API server generates.
func eventPrefix(name string) string {
	return strings.TrimRight(name[:min(len(name), 240)], ".-") + "-"
}

// clip shortens a text to at most limit bytes, at the end of a character.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "…"
	cut := limit - len(more)
	for cut > 0 && text[cut]&0xC0 == 0x80 {
		cut--
	}
	return text[:cut] + more
}
