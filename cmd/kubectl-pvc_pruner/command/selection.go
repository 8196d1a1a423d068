package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/live"
)

// selection says which StatefulSets a command is about.
type selection struct {
	allNamespaces bool
	selector      string
	// names of sets; none: all that the selector allows.
	names []string
	// namespace is "" for all.
	namespace string
}

// addFlags adds -A and -l.
func (s *selection) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "look at all namespaces")
	cmd.Flags().StringVarP(&s.selector, "selector", "l", "", "only StatefulSets with these `labels`, such as app=db,tier!=test")
}

// complete takes over the arguments.
func (s *selection) complete(e *environment, args []string) (err error) {
	s.names = args
	if s.allNamespaces {
		return nil
	}
	s.namespace, err = e.namespace()
	return err
}

func (s *selection) validate() error {
	_, err := labels.Parse(s.selector)
	switch {
	case err != nil:
		return usagef("--selector: %w", err)
	case s.selector != "" && len(s.names) > 0:
		return usagef("names and --selector exclude each other")
	case s.allNamespaces && len(s.names) > 0:
		return usagef("a StatefulSet cannot be named across all namespaces: say which with -n")
	}
	return nil
}

// list returns the sets, by namespace and name. Each one that is named must be there.
func (s *selection) list(ctx context.Context, client kubernetes.Interface) ([]appsv1.StatefulSet, error) {
	sets, err := client.AppsV1().StatefulSets(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: s.selector})
	if err != nil {
		return nil, fmt.Errorf("list StatefulSets: %w", err)
	}
	if sets.Continue != "" {
		return nil, live.ErrPartialList
	}
	if len(s.names) == 0 {
		return sets.Items, nil
	}
	var found []appsv1.StatefulSet
	for _, name := range s.names {
		i := slices.IndexFunc(sets.Items, func(set appsv1.StatefulSet) bool { return set.Name == name })
		if i < 0 {
			return nil, notFoundf("no StatefulSet %q in namespace %s", name, s.namespace)
		}
		found = append(found, sets.Items[i])
	}
	return found, nil
}
