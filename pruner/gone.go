package pruner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// goneDeadline is how long a step waits for deleted claims to disappear. Kubernetes'
// pvc-protection lets an unused one go within a fraction of a second; one that a
// foreign finalizer holds is looked at again later.
const goneDeadline = 15 * time.Second

// awaitGone waits until the claims are gone and returns those that are. The watch
// begins at the version at which the claims were listed, before they were deleted,
// so that no disappearance is missed. Breaking off is no error.
func (s *step) awaitGone(ctx context.Context, version string, accepted []policy.Verdict) ([]policy.Verdict, error) {
	if len(accepted) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, goneDeadline)
	defer cancel()
	left := map[types.UID]bool{}
	for _, v := range accepted {
		left[v.Claim.UID] = true
	}
	err := s.watchGone(ctx, version, left)
	for err != nil && ctx.Err() == nil {
		// The watch expired or broke: a list tells what is left.
		if version, err = s.listLeft(ctx, left); err != nil {
			break
		}
		err = s.watchGone(ctx, version, left)
	}
	var gone []policy.Verdict
	for _, v := range accepted {
		if !left[v.Claim.UID] {
			gone = append(gone, v)
		}
	}
	if ctx.Err() != nil {
		return gone, nil
	}
	return gone, err
}

var errWatchEnded = errors.New("the watch ended")

// watchGone strikes from left what disappears, until nothing is left.
func (s *step) watchGone(ctx context.Context, version string, left map[types.UID]bool) error {
	if len(left) == 0 {
		return nil
	}
	w, err := s.client.CoreV1().PersistentVolumeClaims(s.key.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return fmt.Errorf("watch PersistentVolumeClaims: %w", err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
		if !ok || event.Type != watch.Deleted {
			if event.Type == watch.Error {
				return errWatchEnded
			}
			continue
		}
		delete(left, claim.UID)
		if len(left) == 0 {
			return nil
		}
	}
	return errWatchEnded
}

func (s *step) listLeft(ctx context.Context, left map[types.UID]bool) (version string, err error) {
	if !pause(ctx, resumeAfter) {
		return "", context.Cause(ctx)
	}
	claims, err := s.client.CoreV1().PersistentVolumeClaims(s.key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	if claims.Continue != "" {
		return "", errPartialList
	}
	there := map[types.UID]bool{}
	for i := range claims.Items {
		there[claims.Items[i].UID] = true
	}
	for uid := range left {
		if !there[uid] {
			delete(left, uid)
		}
	}
	return claims.ResourceVersion, nil
}
