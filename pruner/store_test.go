package pruner

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestStoreWritesOurKeysAndNoOtherIntoTheVersionThatWasRead(t *testing.T) {
	prior := int32(5)
	record := &policy.Record{UID: ownUID, Generation: generation}
	bare := newSet(5, 5)
	for _, key := range policy.BookkeepingKeys() {
		delete(bare.Annotations, key)
	}
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		b    policy.Bookkeeping
		want string
	}{
		"a window": {
			newSet(5, 5),
			policy.Bookkeeping{Prior: &prior, Record: record, Window: &policy.Window{Target: 2, Since: epoch}},
			`{"metadata":{"annotations":{` +
				`"pvc-pruner.io/prior-replicas":"5",` +
				`"pvc-pruner.io/record":"{\"uid\":\"5f3c\",\"start\":0,\"generation\":7}",` +
				`"pvc-pruner.io/scaled-down-at":"2000-01-01T00:00:00Z",` +
				`"pvc-pruner.io/target-replicas":"2"` +
				`},"resourceVersion":"100","uid":"5f3c"}}`,
		},
		"a window that is over is removed": {
			newSet(5, 2),
			policy.Bookkeeping{Prior: &prior, Record: record},
			`{"metadata":{"annotations":{` +
				`"pvc-pruner.io/prior-replicas":"5",` +
				`"pvc-pruner.io/record":"{\"uid\":\"5f3c\",\"start\":0,\"generation\":7}",` +
				`"pvc-pruner.io/scaled-down-at":null,` +
				`"pvc-pruner.io/target-replicas":null` +
				`},"resourceVersion":"100","uid":"5f3c"}}`,
		},
		"everything that is stored is removed, and nothing that is not": {
			newSet(5, 5, with(policy.KeyFence, "{}"), with(policy.KeyDelay, "1m")),
			policy.Bookkeeping{},
			`{"metadata":{"annotations":{` +
				`"pvc-pruner.io/fence":null,"pvc-pruner.io/prior-replicas":null,"pvc-pruner.io/record":null` +
				`},"resourceVersion":"100","uid":"5f3c"}}`,
		},
		"a malformed key is replaced": {
			changed(bare, with(policy.KeyPriorReplicas, "many")),
			policy.Bookkeeping{Prior: &prior},
			`{"metadata":{"annotations":{"pvc-pruner.io/prior-replicas":"5"},"resourceVersion":"100","uid":"5f3c"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(tt.set)
			stored, err := store(quietly(t), c, tt.set, tt.b)
			if err != nil {
				t.Fatal(err)
			}
			call := c.fake.Actions()[0].(k8stesting.PatchActionImpl)
			if diff := cmp.Diff(tt.want, string(call.Patch)); diff != "" || call.PatchType != types.MergePatchType {
				t.Errorf("%s patch (-want +got):\n%s", call.PatchType, diff)
			}
			if diff := cmp.Diff(metav1.PatchOptions{FieldManager: "pvc-pruner"}, call.PatchOptions); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.stored(t), stored); diff != "" {
				t.Errorf("what is stored is not what is returned (-stored +returned):\n%s", diff)
			}
			if diff := cmp.Diff(tt.set.Annotations[policy.KeyDelay], stored.Annotations[policy.KeyDelay]); diff != "" {
				t.Errorf("delay (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStoreWritesNothingIntoAnotherVersionOrObject(t *testing.T) {
	for name, option := range map[string]setOption{"another version": atVersion("200"), "another object": asAnotherObject} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(newSet(5, 2, option))
			if _, err := store(quietly(t), c, newSet(5, 2), policy.Bookkeeping{}); !apierrors.IsConflict(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestStoreThatFailsSaysSo(t *testing.T) {
	c := newFakeCluster(newSet(5, 2))
	away := errors.New("etcd is away")
	c.fail("patch", "statefulsets", away)
	if _, err := store(quietly(t), c, newSet(5, 2), policy.Bookkeeping{}); !errors.Is(err, away) || err.Error() != "store bookkeeping: etcd is away" {
		t.Errorf("error %v", err)
	}
}
