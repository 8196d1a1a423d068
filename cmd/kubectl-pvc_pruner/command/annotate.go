package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// fieldManager is who sets the annotations, as managedFields of the object say.
const fieldManager = "kubectl-pvc_pruner"

// object is what an annotation is set on.
type object interface {
	runtime.Object
	metav1.Object
}

// access reads and patches objects of one kind.
type access struct {
	get   func(ctx context.Context, client kubernetes.Interface, namespace, name string) (object, error)
	patch func(ctx context.Context, client kubernetes.Interface, namespace, name string, patch []byte, options metav1.PatchOptions) (object, error)
}

// annotating is a command that sets annotations on objects that are named.
type annotating struct {
	*environment
	access access
	// values to set; nil takes the annotation away.
	values func() (map[string]*string, error)
	// hints are what the user should know of an object after the change.
	hints  func(object) []string
	print  *genericclioptions.PrintFlags
	dryRun string
}

// newAnnotating makes the command; done is what it says was done to an object.
func (e *environment) newAnnotating(use, short, done string, a annotating) *cobra.Command {
	a.environment, a.print = e, genericclioptions.NewPrintFlags(done).WithTypeSetter(scheme.Scheme)
	cmd := &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.validate(args); err != nil {
				return usageError{err}
			}
			return a.run(cmd.Context(), args)
		},
	}
	a.print.AddFlags(cmd)
	cmd.Flags().StringVar(&a.dryRun, "dry-run", dryRunNone, "none; client: only print what would be changed; server: let the API server and pvc-pruner judge it, and store nothing")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "unchanged"
	return cmd
}

// Values of --dry-run, which are those of kubectl.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

func (a *annotating) validate(names []string) error {
	switch {
	case len(names) == 0:
		return errors.New("say which: a name is required")
	case !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, a.dryRun):
		return fmt.Errorf("--dry-run: %q is not accepted, use %s, %s or %s", a.dryRun, dryRunNone, dryRunClient, dryRunServer)
	}
	_, err := a.values()
	return err
}

// run changes one object after the other. One that fails does not keep the others from it.
func (a *annotating) run(ctx context.Context, names []string) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	namespace, _, err := a.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	if a.dryRun != dryRunNone {
		if err := a.print.Complete("%s (" + a.dryRun + " dry run)"); err != nil {
			return err
		}
	}
	printer, err := a.print.ToPrinter()
	if err != nil {
		return usageError{err}
	}
	var errs []error
	for _, name := range names {
		changed, err := a.change(ctx, client, namespace, name)
		if err == nil {
			err = printer.PrintObj(changed, a.Out)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if a.dryRun == dryRunClient {
			continue // the server was not asked, and its answer is what hints are about
		}
		for _, hint := range a.hints(changed) {
			fmt.Fprintln(a.ErrOut, "Warning:", hint)
		}
	}
	return errors.Join(errs...)
}

func (a *annotating) change(ctx context.Context, client kubernetes.Interface, namespace, name string) (object, error) {
	values, err := a.values()
	if err != nil {
		return nil, err
	}
	found, err := a.access.get(ctx, client, namespace, name)
	if err != nil {
		return nil, err
	}
	if a.dryRun == dryRunClient {
		annotations := found.GetAnnotations()
		found.SetAnnotations(applied(annotations, values))
		return found, nil
	}
	patch, err := annotationPatch(found.GetUID(), values)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if a.dryRun == dryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return a.access.patch(ctx, client, namespace, name, patch, options)
}

// annotationPatch carries nothing but the annotations, and the UID of the object that
// the user saw: one that has taken its name since is refused, not marked.
func annotationPatch(uid types.UID, values map[string]*string) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": values}})
}

// applied are annotations after the change.
func applied(annotations map[string]string, values map[string]*string) map[string]string {
	after := map[string]string{}
	maps.Copy(after, annotations)
	for key, value := range values {
		if value == nil {
			delete(after, key)
		} else {
			after[key] = *value
		}
	}
	return after
}
