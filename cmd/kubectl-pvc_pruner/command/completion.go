package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// completeSets offers the names of StatefulSets that are not among the arguments yet.
func (e *environment) completeSets(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	client, err := e.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	namespace, err := e.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	sets, err := client.AppsV1().StatefulSets(namespace).List(cmd.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, 0, len(sets.Items))
	for i := range sets.Items {
		names = append(names, sets.Items[i].Name)
	}
	return offered(names, args, begun), cobra.ShellCompDirectiveNoFileComp
}

// completeClaims offers the names of PersistentVolumeClaims that are not among the
// arguments yet.
func (e *environment) completeClaims(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	client, err := e.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	namespace, err := e.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	claims, err := client.CoreV1().PersistentVolumeClaims(namespace).List(cmd.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, 0, len(claims.Items))
	for i := range claims.Items {
		names = append(names, claims.Items[i].Name)
	}
	return offered(names, args, begun), cobra.ShellCompDirectiveNoFileComp
}

// offered are the names that go on from what is begun, less those that are given.
func offered(names, given []string, begun string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, begun) || slices.Contains(given, name)
	})
}
