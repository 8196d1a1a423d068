package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// remember notes the UIDs of objects; of a KIND alone, those of all its objects.
func remember(ctx context.Context, s *script, args []string) error {
	for _, arg := range args {
		found, err := s.read(ctx, arg)
		if err != nil {
			return err
		}
		maps.Copy(s.remembered, found)
	}
	return nil
}

// read returns the UIDs of KIND/NAME, or of all objects of a KIND.
func (s *script) read(ctx context.Context, arg string) (map[object]types.UID, error) {
	found := map[object]types.UID{}
	if strings.Contains(arg, "/") {
		o, err := s.object(arg)
		if err != nil {
			return nil, err
		}
		live, err := s.get(ctx, o)
		if err != nil {
			return nil, err
		}
		found[o] = live.GetUID()
		return found, nil
	}
	o, err := s.kind(arg)
	if err != nil {
		return nil, err
	}
	list, err := s.access(o).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", arg, err)
	}
	for i := range list.Items {
		o.name = list.Items[i].GetName()
		found[o] = list.Items[i].GetUID()
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no %s to remember", arg)
	}
	return found, nil
}

// kept checks that remembered objects are still the same ones and stay; of a KIND alone, all that were remembered.
func kept(ctx context.Context, s *script, args []string) error {
	var broken []error
	for _, arg := range args {
		objects, err := s.rememberedOf(arg)
		if err != nil {
			return err
		}
		for _, o := range objects {
			broken = append(broken, s.checkKept(ctx, o))
		}
	}
	return errors.Join(broken...)
}

// rememberedOf returns the objects that KIND/NAME or KIND stands for, in the order of their names.
func (s *script) rememberedOf(arg string) ([]object, error) {
	if strings.Contains(arg, "/") {
		o, err := s.object(arg)
		return []object{o}, err
	}
	of, err := s.kind(arg)
	if err != nil {
		return nil, err
	}
	var all []object
	for o := range s.remembered {
		if o.resource == of.resource {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil, usagef("no %s was remembered", arg)
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

func (s *script) checkKept(ctx context.Context, o object) error {
	uid, ok := s.remembered[o]
	if !ok {
		return usagef("%s was not remembered", o)
	}
	live, err := s.get(ctx, o)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is gone", o)
	}
	if err != nil {
		return err
	}
	var problems []string
	if live.GetUID() != uid {
		problems = append(problems, fmt.Sprintf("%s is another object: its UID was %s and is %s", o, uid, live.GetUID()))
	}
	if live.GetDeletionTimestamp() != nil {
		problems = append(problems, fmt.Sprintf("%s is being deleted, %s", o, describeDeletion(live)))
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	return nil
}

func describeDeletion(live *unstructured.Unstructured) string {
	return fmt.Sprintf("since %s, with the finalizers %v", live.GetDeletionTimestamp().UTC().Format("15:04:05"), live.GetFinalizers())
}

// waitGone waits until objects are gone. An object of another UID than the remembered one is not the one that was
// there.
func waitGone(ctx context.Context, s *script, args []string) error {
	objects, err := s.objectsOf(args)
	if err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) (string, error) {
		var here []string
		for _, o := range objects {
			state, err := s.presence(ctx, o)
			if err != nil {
				return "", err
			}
			if state != "" {
				here = append(here, state)
			}
		}
		return strings.Join(here, "; "), nil
	})
}

// presence says in what state an object is still there, or "" when it is gone.
func (s *script) presence(ctx context.Context, o object) (string, error) {
	live, err := s.get(ctx, o)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if uid, ok := s.remembered[o]; ok && uid != live.GetUID() {
		return "", nil
	}
	if live.GetDeletionTimestamp() != nil {
		return fmt.Sprintf("%s is still there, being deleted %s", o, describeDeletion(live)), nil
	}
	return fmt.Sprintf("%s is still there", o), nil
}
