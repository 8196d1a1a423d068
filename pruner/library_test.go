package pruner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/pruner"
)

const space = "cockpit"

func librarySet(replicas *int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: space},
		Spec: appsv1.StatefulSetSpec{
			Replicas:             replicas,
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		},
	}
}

// libraryCluster is client-go's fake with a set of so many replicas, and these claims.
func libraryCluster(replicas *int32, claims ...string) *fake.Clientset {
	client := fake.NewClientset(librarySet(replicas))
	for _, name := range claims {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: space}}
		if err := client.Tracker().Add(claim); err != nil {
			panic(err)
		}
	}
	return client
}

func prune(t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	p := pruner.PersistentVolumePruner{Namespace: space, StatefulSet: "db", ClientSet: client}
	return p.Prune(t.Context())
}

func claimNames(t *testing.T, client kubernetes.Interface) []string {
	t.Helper()
	list, err := client.CoreV1().PersistentVolumeClaims(space).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

func TestPruneDeletesExactlyTheUnusedClaims(t *testing.T) {
	for name, test := range map[string]struct {
		replicas int32
		claims   []string
		want     []string
	}{
		"nothing to do":                 {3, []string{"data-db-0", "data-db-1", "data-db-2"}, []string{"data-db-0", "data-db-1", "data-db-2"}},
		"no claims at all":              {3, nil, nil},
		"extra claims":                  {1, []string{"data-db-0", "data-db-1", "data-db-2", "data-db-10"}, []string{"data-db-0"}},
		"every claim, at zero":          {0, []string{"data-db-0", "data-db-1"}, nil},
		"claims with unexpected names":  {1, []string{"data-db-0", "data-db-x", "data-db-01", "data-db-2-3", "wal-db-4", "data-other-5"}, []string{"data-db-0", "data-db-01", "data-db-2-3", "data-db-x", "data-other-5", "wal-db-4"}},
		"an ordinal beyond what can be": {1, []string{"data-db-99999999999999999999"}, []string{"data-db-99999999999999999999"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := libraryCluster(&test.replicas, test.claims...)
			if err := prune(t, client); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(test.want, claimNames(t, client)); diff != "" {
				t.Errorf("claims differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPruneKeepsAClaimThatAPodNames(t *testing.T) {
	client := libraryCluster(new(int32(1)), "data-db-1", "data-db-2")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "backup", Namespace: space},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-1"},
		}}}},
	}
	if err := client.Tracker().Add(pod); err != nil {
		t.Fatal(err)
	}
	if err := prune(t, client); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"data-db-1"}, claimNames(t, client)); diff != "" {
		t.Errorf("claims differ (-want +got):\n%s", diff)
	}
}

// watched makes the watch of the set deliver these events at once.
func watched(client *fake.Clientset, events ...watch.Event) {
	client.PrependWatchReactor("statefulsets", func(k8stesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFakeWithChanSize(len(events), false)
		for _, event := range events {
			w.Action(event.Type, event.Object)
		}
		return true, w, nil
	})
}

func TestPruneMindsTheWatchOfTheSet(t *testing.T) {
	same, other := librarySet(new(int32(1))), librarySet(new(int32(2)))
	rolled := librarySet(new(int32(1)))
	rolled.Generation, rolled.Spec.Template.Labels = 7, map[string]string{"release": "2"}
	moved := librarySet(new(int32(1)))
	moved.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
	foreign := librarySet(new(int32(9)))
	foreign.Name = "other"
	replaced := librarySet(new(int32(1)))
	replaced.UID = "another"
	for name, test := range map[string]struct {
		events []watch.Event
		stops  bool
	}{
		"a modification without a change of the count": {[]watch.Event{{Type: watch.Modified, Object: same}}, false},
		"a rollout":                                {[]watch.Event{{Type: watch.Modified, Object: rolled}}, false},
		"an initial ADDED":                         {[]watch.Event{{Type: watch.Added, Object: same}}, false},
		"an event of another kind":                 {[]watch.Event{{Type: watch.Modified, Object: &corev1.Pod{}}, {Type: watch.Deleted, Object: &corev1.Pod{}}}, false},
		"an event of another set":                  {[]watch.Event{{Type: watch.Modified, Object: foreign}, {Type: watch.Deleted, Object: foreign}}, false},
		"another count":                            {[]watch.Event{{Type: watch.Modified, Object: other}}, true},
		"another count after one that is the same": {[]watch.Event{{Type: watch.Added, Object: same}, {Type: watch.Modified, Object: other}}, true},
		"no count":                                 {[]watch.Event{{Type: watch.Modified, Object: librarySet(nil)}}, true},
		"another first ordinal":                    {[]watch.Event{{Type: watch.Modified, Object: moved}}, true},
		"another set of the name":                  {[]watch.Event{{Type: watch.Added, Object: replaced}}, true},
		"the set's deletion":                       {[]watch.Event{{Type: watch.Deleted, Object: same}}, true},
		"a failure":                                {[]watch.Event{{Type: watch.Error, Object: &metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := libraryCluster(new(int32(1)), "data-db-1", "data-db-2")
			watched(client, test.events...)
			err, want := prune(t, client), []string(nil)
			if test.stops {
				want = []string{"data-db-1", "data-db-2"}
				if !errors.Is(err, pruner.ErrConcurrentModification) || err.Error() != "concurrent statefulset modification detected" {
					t.Errorf("error is %v", err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, claimNames(t, client)); diff != "" {
				t.Errorf("claims differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPruneStopsAtAChangeBetweenTwoDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := libraryCluster(new(int32(1)), "data-db-1", "data-db-2", "data-db-3")
		w := watch.NewFake()
		client.PrependWatchReactor("statefulsets", k8stesting.DefaultWatchReactor(w, nil))
		client.PrependReactor("delete", "persistentvolumeclaims", func(k8stesting.Action) (bool, runtime.Object, error) {
			w.Modify(librarySet(new(int32(3))))
			synctest.Wait() // until the watch has seen it
			return false, nil, nil
		})
		if err := prune(t, client); !errors.Is(err, pruner.ErrConcurrentModification) {
			t.Errorf("error is %v", err)
		}
		if diff := cmp.Diff([]string{"data-db-2", "data-db-3"}, claimNames(t, client)); diff != "" {
			t.Errorf("claims differ (-want +got):\n%s", diff)
		}
	})
}

func TestPruneNeedsACount(t *testing.T) {
	client := libraryCluster(nil, "data-db-0")
	if err := prune(t, client); err == nil || errors.Is(err, pruner.ErrConcurrentModification) {
		t.Errorf("error is %v", err)
	}
	if got := claimNames(t, client); len(got) != 1 {
		t.Errorf("claims are %v", got)
	}
}

func TestPruneOfAMissingSetIsAnError(t *testing.T) {
	client := fake.NewClientset(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-db-0", Namespace: space}})
	if err := prune(t, client); err == nil {
		t.Error("no error")
	}
	if got := claimNames(t, client); len(got) != 1 {
		t.Errorf("claims are %v", got)
	}
}

// On a slow network every call takes its time, and a deleted claim shows late.
func TestPruneIsPatient(t *testing.T) {
	const latency, lag = 300 * time.Millisecond, 2 * time.Second
	client := libraryCluster(new(int32(1)), "data-db-0", "data-db-1", "data-db-2")
	client.PrependReactor("*", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
		time.Sleep(latency) // it is what this test is about
		return false, nil, nil
	})
	client.PrependWatchReactor("*", func(k8stesting.Action) (bool, watch.Interface, error) {
		time.Sleep(latency)
		return false, nil, nil
	})
	client.PrependReactor("delete", "persistentvolumeclaims", func(action k8stesting.Action) (bool, runtime.Object, error) {
		name := action.(k8stesting.DeleteAction).GetName() //nolint:forcetypeassert // by verb
		time.AfterFunc(lag, func() {
			if err := client.Tracker().Delete(action.GetResource(), space, name); err != nil {
				t.Error(err)
			}
		})
		return true, nil, nil
	})
	if err := prune(t, client); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"data-db-0"}, claimNames(t, client)); diff != "" {
		t.Errorf("claims differ (-want +got):\n%s", diff)
	}
}

func TestPruneEndsWithItsContext(t *testing.T) {
	client := libraryCluster(new(int32(1)), "data-db-1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := pruner.PersistentVolumePruner{Namespace: space, StatefulSet: "db", ClientSet: client}
	if err := p.Prune(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if got := claimNames(t, client); len(got) != 1 {
		t.Errorf("claims are %v", got)
	}
}

func ExamplePersistentVolumePruner_Prune() {
	client := libraryCluster(new(int32(1)), "data-db-0", "data-db-1", "data-db-2") // in an operator: kubernetes.NewForConfig
	p := pruner.PersistentVolumePruner{Namespace: space, StatefulSet: "db", ClientSet: client}
	switch err := p.Prune(context.Background()); {
	case errors.Is(err, pruner.ErrConcurrentModification):
		fmt.Println("somebody scaled; look again")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println("no unused claim is left")
	}
	// Output: no unused claim is left
}
