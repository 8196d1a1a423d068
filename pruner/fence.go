package pruner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

var (
	// errNotFenced: the fence is not enforced, so nothing may be deleted behind it.
	errNotFenced = errors.New("the fence is not enforced")
	// errFenceEnds: too little of the fence's time is left for another DELETE.
	errFenceEnds = errors.New("the fence ends soon")
)

// fencer puts up, proves and takes down the fence of a step (see policy.Fence).
type fencer struct {
	client kubernetes.Interface
	// holder is this process: a nonce, so that a restarted one does not take its
	// predecessor's fence for its own.
	holder string
	// margin before the end of the fence in which nothing more is deleted.
	margin time.Duration
}

func newFencer(client kubernetes.Interface, margin time.Duration) (*fencer, error) {
	nonce := make([]byte, 8)
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("draw a nonce: %w", err)
	}
	return &fencer{client: client, holder: hex.EncodeToString(nonce), margin: margin}, nil
}

// raise writes the fence into the version of the set that was read, and returns what is
// stored, and until when claims may be deleted behind it. That is counted from before
// the request was sent, on our own clock: it can only end earlier than those who
// enforce the fence believe.
func (f *fencer) raise(ctx context.Context, plan policy.Plan, replan func(*appsv1.StatefulSet) policy.Plan) (policy.Plan, time.Time, error) {
	began := time.Now()
	value, err := policy.FenceFor(plan, f.holder).Encode()
	if err != nil {
		return policy.Plan{}, time.Time{}, err
	}
	b := plan.Bookkeeping
	b.Fence = value
	stored, err := store(ctx, f.client, plan.Set, b)
	if err != nil {
		return policy.Plan{}, time.Time{}, err
	}
	fence := policy.ReadFence(stored.Annotations)
	if fence == nil || fence.Holder != f.holder || fence.Until.IsZero() {
		return policy.Plan{}, time.Time{}, fmt.Errorf("%w: our webhook was not asked about a write of the StatefulSet; is its namespace excluded?", errNotFenced)
	}
	return replan(stored), began.Add(policy.FenceLifetime - f.margin), nil
}

// prove asks for what the fence forbids, in a dry run, and is content only with a
// refusal by our own webhook because of this very fence. If the webhook cannot be
// reached, the API server lets the scale pass (failurePolicy Ignore), here as in
// earnest, and then nothing may be deleted.
func (f *fencer) prove(ctx context.Context, plan policy.Plan) error {
	replicas, _ := policy.Replicas(plan.Set)
	// The prior count was accepted once, so that no other policy should refuse it.
	up := max(*plan.Bookkeeping.Prior, replicas+1)
	set := plan.Set
	_, err := f.client.AppsV1().StatefulSets(set.Namespace).UpdateScale(ctx, set.Name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: set.Namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: up},
	}, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: FieldManager})
	switch {
	case err == nil:
		return fmt.Errorf("%w: the API server would accept a scale-up to %d; our webhook was not asked", errNotFenced, up)
	case apierrors.IsConflict(err) && strings.Contains(err.Error(), f.holder):
		return nil
	}
	return fmt.Errorf("%w: a scale-up to %d was refused by something else: %w", errNotFenced, up, err)
}
