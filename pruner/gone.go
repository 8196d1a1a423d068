package pruner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pvc-pruner/pvc-pruner/pruner/live"
	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// goneDeadline is how long a step waits for deleted claims to disappear. Kubernetes'
// pvc-protection lets an unused one go within a fraction of a second; one that a
// foreign finalizer holds must not block scaling for longer: once it is Terminating the
// StatefulSet controller itself starts no pod on it. It is looked at again later.
const goneDeadline = 15 * time.Second

// firstLook is after how long a silent watch is not believed; twice that the next time.
// It is about as long as a claim takes to go as a rule.
const firstLook = 300 * time.Millisecond

// awaitGone waits until the claims are gone; dying are those that are not in time, with
// what holds them. The watch
// begins at the version at which the claims were listed, before they were deleted,
// so that no disappearance is missed. Behind a fence this goes on although the step was
// broken off or the API server stutters: what has been deleted must be gone before
// anybody may scale up.
func (s *step) awaitGone(ctx context.Context, version string, accepted []policy.Verdict) (gone, dying []policy.Verdict) {
	if len(accepted) == 0 {
		return nil, nil
	}
	left := map[identity]*corev1.PersistentVolumeClaim{}
	for _, v := range accepted {
		left[identify(v.Claim)] = v.Claim
	}
	if s.fence != nil {
		ctx = context.WithoutCancel(ctx)
	}
	s.awaitFor(ctx, s.patience, version, left)
	if s.fence != nil && s.used(ctx, left) {
		// A pod that came in between runs on a claim which is going. As long as it does,
		// nobody may believe that the ordinal is free.
		s.awaitFor(ctx, policy.FenceLifetime-s.fence.margin-goneDeadline, version, left)
	}
	for _, v := range accepted {
		if last := left[identify(v.Claim)]; last != nil {
			v.Claim = last
			dying = append(dying, v.Terminating())
		} else {
			gone = append(gone, v)
		}
	}
	return gone, dying
}

// awaitFor strikes from left what disappears, until nothing is left or the time is over.
func (s *step) awaitFor(ctx context.Context, limit time.Duration, version string, left map[identity]*corev1.PersistentVolumeClaim) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for patience := firstLook; ; patience *= 2 {
		watching, cancel := context.WithTimeout(ctx, patience)
		err := s.watchGone(watching, version, left)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
		// The watch expired, broke, or says nothing: a list tells what is left.
		next, err := s.listLeft(ctx, left)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.V(1).Info("Deleted claims not looked at", "cause", err.Error())
		default:
			version = next
		}
	}
}

// used says whether a pod that is not on its way out names one of the claims. Not
// knowing counts as yes.
func (s *step) used(ctx context.Context, claims map[identity]*corev1.PersistentVolumeClaim) bool {
	if len(claims) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, deleteDeadline)
	defer cancel()
	pods, err := s.client.CoreV1().Pods(s.key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil || pods.Continue != "" {
		return true
	}
	for i := range pods.Items {
		for claim := range claims {
			if pods.Items[i].DeletionTimestamp == nil && policy.Uses(&pods.Items[i], claim.name) {
				return true
			}
		}
	}
	return false
}

var errWatchEnded = errors.New("the watch ended")

// watchGone strikes from left what disappears, until nothing is left.
func (s *step) watchGone(ctx context.Context, version string, left map[identity]*corev1.PersistentVolumeClaim) error {
	if len(left) == 0 {
		return nil
	}
	w, err := s.client.CoreV1().PersistentVolumeClaims(s.key.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return fmt.Errorf("watch PersistentVolumeClaims: %w", err)
	}
	defer w.Stop()
	for len(left) > 0 {
		select {
		case <-ctx.Done():
			return errWatchEnded
		case event, ok := <-w.ResultChan():
			if !ok || event.Type == watch.Error {
				return errWatchEnded
			}
			strike(left, event)
		}
	}
	return nil
}

// strike takes a claim that is gone from left, and keeps the last version of one that is not.
func strike(left map[identity]*corev1.PersistentVolumeClaim, event watch.Event) {
	claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
	switch {
	case !ok || left[identify(claim)] == nil:
	case event.Type == watch.Deleted:
		delete(left, identify(claim))
	default:
		left[identify(claim)] = claim
	}
}

func (s *step) listLeft(ctx context.Context, left map[identity]*corev1.PersistentVolumeClaim) (version string, err error) {
	if !pause(ctx, resumeAfter) {
		return "", context.Cause(ctx)
	}
	claims, err := s.client.CoreV1().PersistentVolumeClaims(s.key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	if claims.Continue != "" {
		return "", live.ErrPartialList
	}
	there := map[identity]*corev1.PersistentVolumeClaim{}
	for i := range claims.Items {
		there[identify(&claims.Items[i])] = &claims.Items[i]
	}
	for id := range left {
		if there[id] == nil {
			delete(left, id)
		} else {
			left[id] = there[id]
		}
	}
	return claims.ResourceVersion, nil
}
