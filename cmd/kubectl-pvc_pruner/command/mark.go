package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

var statefulSets = access{
	get: func(ctx context.Context, client kubernetes.Interface, namespace, name string) (object, error) {
		return client.AppsV1().StatefulSets(namespace).Get(ctx, name, metav1.GetOptions{})
	},
	patch: func(ctx context.Context, client kubernetes.Interface, namespace, name string, patch []byte, options metav1.PatchOptions) (object, error) {
		return client.AppsV1().StatefulSets(namespace).Patch(ctx, name, types.MergePatchType, patch, options)
	},
}

var claims = access{
	get: func(ctx context.Context, client kubernetes.Interface, namespace, name string) (object, error) {
		return client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	},
	patch: func(ctx context.Context, client kubernetes.Interface, namespace, name string, patch []byte, options metav1.PatchOptions) (object, error) {
		return client.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, name, types.MergePatchType, patch, options)
	},
}

// controlFlags are the annotations that enable can set beside enabled, by flag. The
// annotation dry-run has another name here, because --dry-run is kubectl's own.
var controlFlags = []struct{ flag, key, usage string }{
	{"delay", policy.KeyDelay, "undo window, such as 10m or 7d"},
	{"scope", policy.KeyScope, "scaled-down, or all unused ordinals above the range"},
	{"scale-to-zero", policy.KeyScaleToZero, "keep or prune while replicas is 0"},
	{"stale-volumes", policy.KeyStaleVolumes, "reuse old volumes in a scale-up, or forbid that"},
	{"templates", policy.KeyTemplates, "volumeClaimTemplates whose claims may go, such as data,wal"},
	{"snapshot-class", policy.KeySnapshotClass, "VolumeSnapshotClass of which a snapshot is taken before a claim goes"},
	{"dry-run-prunes", policy.KeyDryRun, "true: report what would go, and delete nothing"},
}

// newEnable opts StatefulSets in.
func (e *environment) newEnable() *cobra.Command {
	given := map[string]*string{}
	var cmd *cobra.Command
	cmd = e.newAnnotating("enable SET...", "Opt StatefulSets in, and set their controls", "enabled", annotating{
		access: statefulSets,
		values: func() (map[string]*string, error) { return enabling(given, cmd.Flags().Changed) },
		hints:  enableHints,
	})
	for _, c := range controlFlags {
		given[c.flag] = cmd.Flags().String(c.flag, "", c.usage+"; empty takes the annotation away")
	}
	return cmd
}

// enabling are the annotations that opt in with the controls that were given. They are
// checked as the webhook does, which may not be there to do it.
func enabling(given map[string]*string, changed func(string) bool) (map[string]*string, error) {
	values := map[string]*string{policy.KeyEnabled: new("true")}
	for _, c := range controlFlags {
		if !changed(c.flag) {
			continue
		}
		if values[c.key] = given[c.flag]; *given[c.flag] == "" {
			values[c.key] = nil
		}
	}
	var errs []error
	for _, problem := range policy.CheckControls(nil, applied(nil, values)) {
		errs = append(errs, errors.New(problem.String()))
	}
	return values, errors.Join(errs...)
}

// enableHints: our webhook answers an opt-in with bookkeeping. Where there is none,
// nobody watches the namespace.
func enableHints(o object) []string {
	if _, ok := o.GetAnnotations()[policy.KeyPriorReplicas]; ok {
		return nil
	}
	return []string{fmt.Sprintf("pvc-pruner's webhook did not answer for namespace %s: where it is not installed, nothing watches this StatefulSet and nothing is deleted", o.GetNamespace())}
}

// notOptedIn says that a control of a set has no effect as yet.
func notOptedIn(o object) []string {
	if policy.OptedIn(o.GetAnnotations()) {
		return nil
	}
	return []string{fmt.Sprintf("StatefulSet %s is not opted in: nothing of it is deleted anyway", o.GetName())}
}

// keepHints: a claim that is going cannot be kept.
func keepHints(o object) []string {
	if o.GetDeletionTimestamp() == nil {
		return nil
	}
	return []string{fmt.Sprintf("PersistentVolumeClaim %s is being deleted already: this comes too late", o.GetName())}
}

func silent(object) []string { return nil }

// always is a change without flags.
func always(key string, value *string) func() (map[string]*string, error) {
	return func() (map[string]*string, error) { return map[string]*string{key: value}, nil }
}

// newMarks are the commands that set one annotation.
func (e *environment) newMarks() []*cobra.Command {
	return []*cobra.Command{
		e.newAnnotating("disable SET...", "Opt StatefulSets out; what is pending is forgotten, and stays", "disabled",
			annotating{access: statefulSets, values: always(policy.KeyEnabled, new("false")), hints: silent}),
		e.newAnnotating("pause SET...", "Hold every deletion of StatefulSets", "paused",
			annotating{access: statefulSets, values: always(policy.KeyPaused, new("true")), hints: notOptedIn}),
		e.newAnnotating("resume SET...", "End a pause; the undo window begins again", "resumed",
			annotating{access: statefulSets, values: always(policy.KeyPaused, new("false")), hints: notOptedIn}),
		e.newAnnotating("keep PVC...", "Keep claims for good", "kept",
			annotating{access: claims, values: always(policy.KeyKeep, new("true")), hints: keepHints}),
		e.newAnnotating("release PVC...", "Let claims go again that were kept", "released",
			annotating{access: claims, values: always(policy.KeyKeep, nil), hints: silent}),
	}
}
