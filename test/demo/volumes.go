package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// volume is what is behind one ordinal: its claim, and the folder that holds its data.
type volume struct {
	claim    string
	uid      types.UID
	pv       string
	folder   string
	contents string
}

// file in each folder, so that there are data to lose.
const file = "data"

// fill looks up the volumes of the first count ordinals and writes data into each.
func fill(ctx context.Context, client kubernetes.Interface, count int) ([]volume, error) {
	var volumes []volume
	for ordinal := range count {
		v := volume{claim: fmt.Sprintf("data-db-%d", ordinal), contents: fmt.Sprintf("the data of db-%d\n", ordinal)}
		claim, err := client.CoreV1().PersistentVolumeClaims(corev1.NamespaceDefault).Get(ctx, v.claim, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get claim: %w", err)
		}
		v.uid, v.pv = claim.UID, claim.Spec.VolumeName
		pv, err := client.CoreV1().PersistentVolumes().Get(ctx, v.pv, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get volume: %w", err)
		}
		if pv.Spec.HostPath == nil {
			return nil, fmt.Errorf("volume %s has no host folder", v.pv)
		}
		v.folder = pv.Spec.HostPath.Path
		if err := os.WriteFile(filepath.Join(v.folder, file), []byte(v.contents), 0o600); err != nil {
			return nil, fmt.Errorf("write data: %w", err)
		}
		volumes = append(volumes, v)
	}
	return volumes, nil
}

// untouched checks that a volume is what it was: the same claim, not on its way out, with its data.
func (v volume) untouched(ctx context.Context, client kubernetes.Interface) error {
	claim, err := client.CoreV1().PersistentVolumeClaims(corev1.NamespaceDefault).Get(ctx, v.claim, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("claim %s must be there: %w", v.claim, err)
	case claim.UID != v.uid:
		return fmt.Errorf("claim %s is another one: UID %s, was %s", v.claim, claim.UID, v.uid)
	case claim.DeletionTimestamp != nil:
		return fmt.Errorf("claim %s is being deleted", v.claim)
	}
	data, err := os.ReadFile(filepath.Join(v.folder, file))
	if err != nil {
		return fmt.Errorf("data of %s must be there: %w", v.claim, err)
	}
	if string(data) != v.contents {
		return fmt.Errorf("data of %s are %q, were %q", v.claim, data, v.contents)
	}
	return nil
}

// awaitGone waits until claim, PersistentVolume and folder are gone.
func (v volume) awaitGone(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, commandDeadline)
	defer cancel()
	var left error
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		left = v.remains(ctx, client)
		return left == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", v.claim, errors.Join(left, err))
	}
	return nil
}

// remains says what is left of a volume, nil if nothing is.
func (v volume) remains(ctx context.Context, client kubernetes.Interface) error {
	if _, err := client.CoreV1().PersistentVolumeClaims(corev1.NamespaceDefault).Get(ctx, v.claim, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return errors.Join(errors.New("the claim is still there"), err)
	}
	if _, err := client.CoreV1().PersistentVolumes().Get(ctx, v.pv, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return errors.Join(errors.New("the PersistentVolume is still there"), err)
	}
	if _, err := os.Stat(v.folder); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errors.New("the folder is still there"), err)
	}
	return nil
}
