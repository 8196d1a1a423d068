package live

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// Workloads lists what may make pods of its own accord later: CronJobs, Jobs that are not
// finished, Deployments, DaemonSets, ReplicaSets and
// ReplicationControllers. An error means that nothing can be
// judged.
func Workloads(ctx context.Context, client kubernetes.Interface, namespace string) ([]policy.Workload, error) {
	var all []policy.Workload
	for _, list := range []func(context.Context, kubernetes.Interface, string) ([]policy.Workload, string, error){
		cronJobs, jobs, deployments, daemonSets, replicaSets, replicationControllers,
	} {
		some, next, err := list(ctx, client, namespace)
		if err != nil {
			return nil, err
		}
		if next != "" {
			return nil, ErrPartialList
		}
		all = append(all, some...)
	}
	return all, nil
}

func cronJobs(ctx context.Context, client kubernetes.Interface, namespace string) (found []policy.Workload, next string, err error) {
	list, err := client.BatchV1().CronJobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list CronJobs: %w", err)
	}
	for i := range list.Items {
		found = append(found, policy.Workload{Kind: "CronJob", Name: list.Items[i].Name, Pod: list.Items[i].Spec.JobTemplate.Spec.Template.Spec})
	}
	return found, list.Continue, nil
}

func jobs(ctx context.Context, client kubernetes.Interface, namespace string) (found []policy.Workload, next string, err error) {
	list, err := client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list Jobs: %w", err)
	}
	for i := range list.Items {
		if !finished(&list.Items[i]) {
			found = append(found, policy.Workload{Kind: "Job", Name: list.Items[i].Name, Pod: list.Items[i].Spec.Template.Spec})
		}
	}
	return found, list.Continue, nil
}

// finished says whether a Job makes no pods any more.
func finished(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func deployments(ctx context.Context, client kubernetes.Interface, namespace string) (found []policy.Workload, next string, err error) {
	list, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list Deployments: %w", err)
	}
	for i := range list.Items {
		found = append(found, policy.Workload{Kind: "Deployment", Name: list.Items[i].Name, Pod: list.Items[i].Spec.Template.Spec})
	}
	return found, list.Continue, nil
}

func daemonSets(ctx context.Context, client kubernetes.Interface, namespace string) (found []policy.Workload, next string, err error) {
	list, err := client.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list DaemonSets: %w", err)
	}
	for i := range list.Items {
		found = append(found, policy.Workload{Kind: "DaemonSet", Name: list.Items[i].Name, Pod: list.Items[i].Spec.Template.Spec})
	}
	return found, list.Continue, nil
}

func replicaSets(ctx context.Context, client kubernetes.Interface, namespace string) (found []policy.Workload, next string, err error) {
	list, err := client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list ReplicaSets: %w", err)
	}
	for i := range list.Items {
		if !superseded(&list.Items[i]) {
			found = append(found, policy.Workload{Kind: "ReplicaSet", Name: list.Items[i].Name, Pod: list.Items[i].Spec.Template.Spec})
		}
	}
	return found, list.Continue, nil
}

func replicationControllers(ctx context.Context, client kubernetes.Interface, namespace string) (found []policy.Workload, next string, err error) {
	list, err := client.CoreV1().ReplicationControllers(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("list ReplicationControllers: %w", err)
	}
	for i := range list.Items {
		if template := list.Items[i].Spec.Template; template != nil {
			found = append(found, policy.Workload{Kind: "ReplicationController", Name: list.Items[i].Name, Pod: template.Spec})
		}
	}
	return found, list.Continue, nil
}

// superseded says whether a ReplicaSet is but the history of a Deployment, which is looked
// at itself.
func superseded(rs *appsv1.ReplicaSet) bool {
	owner := metav1.GetControllerOf(rs)
	return owner != nil && owner.Kind == "Deployment" && rs.Spec.Replicas != nil && *rs.Spec.Replicas == 0
}
