package pruner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// answer makes the DELETEs of one claim end with the errors given, one after the other;
// a DELETE with nil, and each after the last, is carried out.
func (c *fakeCluster) answer(claim string, errs ...error) {
	c.on("delete", "persistentvolumeclaims", func(action k8stesting.Action) (bool, runtime.Object, error) {
		if action.(k8stesting.DeleteActionImpl).Name != claim || len(errs) == 0 {
			return false, nil, nil
		}
		err := errs[0]
		errs = errs[1:]
		return err != nil, nil, err
	})
}

func conflict(claim string) error {
	return apierrors.NewConflict(claimsResource.GroupResource(), claim, errors.New("changed"))
}

func TestDeleteNamesTheVeryClaimThatWasJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(3, 2), newClaim(2))
		run(t, c, told{Deleted: []string{"data-db-2"}})
		uid, version, background := types.UID("uid-of-data-db-2"), "12", metav1.DeletePropagationBackground
		want := metav1.DeleteOptions{
			PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		}
		for _, action := range c.fake.Actions() {
			if call, ok := action.(k8stesting.DeleteActionImpl); ok {
				if diff := cmp.Diff(want, call.DeleteOptions); diff != "" || call.Namespace != namespace {
					t.Errorf("DELETE in %s (-want +got):\n%s", call.Namespace, diff)
				}
			}
		}
		sent(t, c, "data-db-2")
	})
}

func TestDeletesAreSentAscendingByOrdinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(12, 8), newClaim(11), newClaim(9), newClaim(10), newClaim(8))
		run(t, c, told{Deleted: []string{"data-db-8", "data-db-9", "data-db-10", "data-db-11"}})
		sent(t, c, "data-db-8", "data-db-9", "data-db-10", "data-db-11")
	})
}

func TestClaimThatIsGoneAlreadyCountsAsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
		c.on("delete", "persistentvolumeclaims", func(action k8stesting.Action) (bool, runtime.Object, error) {
			if action.(k8stesting.DeleteActionImpl).Name == "data-db-2" {
				// Somebody else was faster.
				_, _, err := c.deleteClaim(action)
				return false, nil, err
			}
			return false, nil, nil
		})
		if out := run(t, c, told{Deleted: []string{"data-db-2", "data-db-3"}}); !out.finished() {
			t.Error("not finished")
		}
		sent(t, c, "data-db-2", "data-db-3")
	})
}

func TestClaimThatChangedForHarmlessReasonsIsDeletedInItsNewVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
		c.afterDelete = func(claim string) {
			if claim == "data-db-2" && len(c.deletes()) == 1 {
				c.put(t, newClaim(3, func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = "99" }))
			}
		}
		run(t, c, told{Deleted: []string{"data-db-2", "data-db-3"}})
		sent(t, c, "data-db-2", "data-db-3", "data-db-3")
		if waited := time.Since(epoch); waited < conflictPause {
			t.Errorf("judged again after %v", waited)
		}
	})
}

func TestClaimThatChangedIsJudgedAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		option claimOption
		want   string
	}{
		"it is marked to be kept": {
			func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{policy.KeyKeep: "true"} },
			"data-db-3: Keep KeepAnnotation",
		},
		"it was made anew": {
			func(c *corev1.PersistentVolumeClaim) { c.UID, c.CreationTimestamp = "restored", metav1.NewTime(epoch) },
			"data-db-3: Keep CreatedSince",
		},
		"somebody else owns it": {
			func(c *corev1.PersistentVolumeClaim) {
				yes := true
				c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x", Controller: &yes}}
			},
			"data-db-3: Keep OwnedByOther",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
				c.afterDelete = func(claim string) {
					if claim == "data-db-2" {
						c.put(t, newClaim(3, func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = "99" }, tt.option))
					}
				}
				run(t, c, told{Deleted: []string{"data-db-2"}, Kept: []string{tt.want}})
				sent(t, c, "data-db-2", "data-db-3")
			})
		})
	}
}

func TestPodThatAppearsBeforeAClaimIsJudgedAnewProtectsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2))
		c.answer("data-db-2", conflict("data-db-2"))
		c.afterDelete = func(string) {
			if err := c.fake.Tracker().Add(newPod("restic", "data-db-2")); err != nil {
				t.Error(err)
			}
		}
		run(t, c, told{Kept: []string{"data-db-2: Wait ClaimInUse"}})
		sent(t, c, "data-db-2")
	})
}

func TestClaimThatNeverStopsChangingIsLeftForALaterStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(3, 2), newClaim(2))
		c.fail("delete", "persistentvolumeclaims", conflict("data-db-2"))
		if out := run(t, c, told{Kept: []string{"data-db-2: Delete Unused"}}); out.finished() {
			t.Error("finished")
		}
		if tries := len(c.deletes()); tries != conflictRounds {
			t.Errorf("tried %d times", tries)
		}
	})
}

func TestDeleteThatIsRefusedHoldsUpNoSiblingAndIsNotRepeated(t *testing.T) {
	for name, err := range map[string]error{
		"forbidden":          apierrors.NewForbidden(claimsResource.GroupResource(), "data-db-3", errors.New("no right")),
		"too many requests":  apierrors.NewTooManyRequests("later", 1),
		"invalid":            apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim").GroupKind(), "data-db-3", nil),
		"wrapped on its way": fmt.Errorf("delete: %w", apierrors.NewBadRequest("odd")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3), newClaim(4))
				c.answer("data-db-3", err)
				out := run(t, c, told{
					Deleted: []string{"data-db-2", "data-db-4"}, Failed: []string{"data-db-3"}, Kept: []string{"data-db-3: Delete Unused"},
				})
				sent(t, c, "data-db-2", "data-db-3", "data-db-4")
				if !errors.Is(out.failed[0].err, err) || out.finished() {
					t.Errorf("failed with %v, finished: %v", out.failed[0].err, out.finished())
				}
			})
		})
	}
}

// It may still land, behind the fence that it was sent behind and no other.
func TestDeleteWhoseEndIsNotKnownEndsTheDeletes(t *testing.T) {
	for name, err := range map[string]error{
		"an internal error":        apierrors.NewInternalError(errors.New("a webhook failed")),
		"a timeout":                apierrors.NewTimeoutError("too slow", 1),
		"a server that is ending":  apierrors.NewServiceUnavailable("ending"),
		"a deadline that ran":      context.DeadlineExceeded,
		"a broken connection":      &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"a request that timed out": &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusRequestTimeout}},
		"an answer without a code": &apierrors.StatusError{},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(6, 2), newClaim(2), newClaim(3), newClaim(4), newClaim(5))
				c.answer("data-db-2", conflict("data-db-2"))
				c.answer("data-db-4", err)
				out := run(t, c, told{
					Deleted: []string{"data-db-3"}, Ambiguous: []string{"data-db-4"},
					Kept: []string{"data-db-2: Delete Unused", "data-db-4: Delete Unused", "data-db-5: Delete Unused"},
				})
				sent(t, c, "data-db-2", "data-db-3", "data-db-4")
				if !errors.Is(out.ambiguous[0].err, err) || out.finished() {
					t.Errorf("ended with %v, finished: %v", out.ambiguous[0].err, out.finished())
				}
			})
		})
	}
}

func TestDeleteHasADeadlineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
		run(t, c, told{Deleted: []string{"data-db-2", "data-db-3"}})
		if diff := cmp.Diff([]time.Duration{deleteDeadline, deleteDeadline}, c.deadlines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A DELETE that is on its way is not cut, so that its end is known.
func TestNothingMoreIsDeletedOnceTheContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(quietly(t))
		c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3), newClaim(4))
		c.afterDelete = func(string) { cancel() }
		out, err := c.step().run(ctx)
		want := told{Deleted: []string{"data-db-2"}, Kept: []string{"data-db-3: Delete Unused", "data-db-4: Delete Unused"}, Stopped: "context canceled"}
		if diff := cmp.Diff(want, tell(out), cmpopts.EquateEmpty()); diff != "" || err != nil || out.finished() {
			t.Errorf("finished: %v, error: %v (-want +got):\n%s", out.finished(), err, diff)
		}
		sent(t, c, "data-db-2")
	})
}

func TestNothingIsDeletedInAContextThatHadEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(quietly(t))
		cancel()
		c := newFakeCluster(newSet(5, 2), newClaim(2))
		if out, err := c.step().run(ctx); !errors.Is(out.stopped, context.Canceled) || err != nil || out.finished() {
			t.Errorf("told %+v, error %v", tell(out), err)
		}
		sent(t, c)
	})
}

// The server must know the deadline, too, and the client must not send a DELETE again
// by itself, long after the verdict.
func TestDeleteOnTheWireCarriesItsDeadlineAndIsSentOnce(t *testing.T) {
	type request struct {
		Method, Path, Timeout string
		Options               metav1.DeleteOptions
	}
	var got []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := request{Method: r.Method, Path: r.URL.Path, Timeout: r.URL.Query().Get("timeout")}
		if err := json.NewDecoder(r.Body).Decode(&seen.Options); err != nil {
			t.Error(err)
		}
		got = append(got, seen)
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := newFakeCluster().step()
	s.client = client
	if err := s.deleteClaim(quietly(t), policy.Verdict{Claim: newClaim(2)}); !apierrors.IsTooManyRequests(err) || !refused(err) {
		t.Errorf("error %v", err)
	}
	uid, version, background := types.UID("uid-of-data-db-2"), "12", metav1.DeletePropagationBackground
	want := []request{{http.MethodDelete, "/api/v1/namespaces/t/persistentvolumeclaims/data-db-2", "5s", metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"},
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
