package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
)

// holdFinalizer keeps a deleted pod Terminating.
const holdFinalizer = "pvc-pruner.test/hold"

// waitAnnotation waits until an object has an annotation with a value, or, without one, until it has none.
func waitAnnotation(ctx context.Context, s *script, args []string) error {
	o, err := s.object(args[0])
	if err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) (string, error) {
		live, err := s.get(ctx, o)
		if err != nil {
			return "", err
		}
		value, has := live.GetAnnotations()[annotationKey(args[1])]
		return annotationProblem(value, has, args[2:]), nil
	})
}

// annotationProblem compares an annotation with the wanted value; no wanted value means that it must not be there.
func annotationProblem(value string, has bool, wanted []string) string {
	switch {
	case len(wanted) == 0 && has:
		return fmt.Sprintf("the annotation is still there, with the value %q", value)
	case len(wanted) == 0:
		return ""
	case !has:
		return "the annotation is not there"
	case value != wanted[0]:
		return fmt.Sprintf("the annotation is %q, not %q", value, wanted[0])
	}
	return ""
}

// finalizer adds or removes a finalizer.
func finalizer(ctx context.Context, s *script, args []string) error {
	o, err := s.object(args[1])
	if err != nil {
		return err
	}
	switch args[0] {
	case "add":
		return s.addFinalizer(ctx, o, args[2])
	case "remove":
		return s.removeFinalizer(ctx, o, args[2])
	}
	return usagef("%q is neither add nor remove", args[0])
}

// holdPod makes a pod stay Terminating once it is deleted.
func holdPod(ctx context.Context, s *script, args []string) error {
	return finalizer(ctx, s, []string{"add", podObject(args[0]), holdFinalizer})
}

func releasePod(ctx context.Context, s *script, args []string) error {
	return finalizer(ctx, s, []string{"remove", podObject(args[0]), holdFinalizer})
}

func podObject(name string) string { return "pod/" + strings.TrimPrefix(name, "pod/") }

func (s *script) addFinalizer(ctx context.Context, o object, name string) error {
	err := s.updateFinalizers(ctx, o, func(now []string) ([]string, error) {
		if slices.Contains(now, name) {
			return nil, fmt.Errorf("%s has the finalizer %s already", o, name)
		}
		return append(now, name), nil
	})
	if err != nil {
		return err
	}
	s.finalizers[heldObject{o, name}] = true
	return nil
}

func (s *script) removeFinalizer(ctx context.Context, o object, name string) error {
	err := s.updateFinalizers(ctx, o, func(now []string) ([]string, error) {
		i := slices.Index(now, name)
		if i < 0 {
			return nil, fmt.Errorf("%s has no finalizer %s, only %v", o, name, now)
		}
		return slices.Delete(now, i, i+1), nil
	})
	if err != nil {
		return err
	}
	delete(s.finalizers, heldObject{o, name})
	return nil
}

// updateFinalizers changes the list on the latest version of the object, and tries again when somebody was faster.
func (s *script) updateFinalizers(ctx context.Context, o object, change func([]string) ([]string, error)) error {
	var live *unstructured.Unstructured
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var err error
		if live, err = s.get(ctx, o); err != nil {
			return err
		}
		finalizers, err := change(live.GetFinalizers())
		if err != nil {
			return err
		}
		live.SetFinalizers(finalizers)
		_, err = s.access(o).Update(ctx, live, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsNotFound(err) && live != nil && live.GetDeletionTimestamp() != nil {
		return nil // it went with its last finalizer
	}
	return err
}
