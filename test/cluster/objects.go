package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// provisioner is the one that kube-controller-manager runs with --enable-hostpath-provisioner.
const provisioner = "kubernetes.io/host-path"

// usableDeadline bounds the wait for nodes and the default service account.
const usableDeadline = 90 * time.Second

// createObjects creates what an empty cluster lacks: nodes for kwok to play, and storage classes.
func createObjects(ctx context.Context, client kubernetes.Interface, nodes int) error {
	for _, class := range storageClasses() {
		if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create storage class %s: %w", class.Name, err)
		}
	}
	for i := range nodes {
		node := newNode(i)
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", node.Name, err)
		}
	}
	return nil
}

func newNode(index int) *corev1.Node {
	name := fmt.Sprintf("node-%d", index)
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
	}}
}

func storageClasses() []*storagev1.StorageClass {
	class := func(name string, reclaim corev1.PersistentVolumeReclaimPolicy, binding storagev1.VolumeBindingMode) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta:        metav1.ObjectMeta{Name: name},
			Provisioner:       provisioner,
			ReclaimPolicy:     &reclaim,
			VolumeBindingMode: &binding,
		}
	}
	standard := class("standard", corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate)
	standard.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	return []*storagev1.StorageClass{
		standard,
		class("standard-wait", corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer),
		class("standard-retain", corev1.PersistentVolumeReclaimRetain, storagev1.VolumeBindingImmediate),
	}
}

// awaitUsable waits for the effects that prove kwok and kube-controller-manager to be at work, and blames the program
// whose effect is missing.
func (c *Cluster) awaitUsable(ctx context.Context, nodes int) error {
	ctx, cancel := context.WithTimeout(ctx, usableDeadline)
	defer cancel()
	if err := c.await(ctx, "kwok", func(ctx context.Context) (bool, error) { return nodesReady(ctx, c.client, nodes) }); err != nil {
		return err
	}
	return c.await(ctx, "kube-controller-manager", func(ctx context.Context) (bool, error) {
		return defaultServiceAccount(ctx, c.client)
	})
}

// await polls until done, the end of ctx, or the death of the program that should bring it about.
func (c *Cluster) await(ctx context.Context, name string, done func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if p, isProcess := c.byName[name].(*process); isProcess && err == nil {
			err = p.died()
		}
		if ctx.Err() != nil {
			err = errors.Join(err, context.Cause(ctx))
		}
		if err != nil {
			return fmt.Errorf("start %s: %w\nthe end of its log:\n%s", name, err, c.LogTail(name, 15))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func nodesReady(ctx context.Context, client kubernetes.Interface, wanted int) (bool, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list nodes: %w", err)
	}
	ready := 0
	for i := range list.Items {
		if nodeReady(&list.Items[i]) {
			ready++
		}
	}
	return ready >= wanted, nil
}

// nodeReady also asks for the node to be free of the taint that new nodes get: it keeps pods away until the node
// lifecycle controller has seen the Ready condition.
func nodeReady(node *corev1.Node) bool {
	if len(node.Spec.Taints) > 0 {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func defaultServiceAccount(ctx context.Context, client kubernetes.Interface) (bool, error) {
	_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get the default service account: %w", err)
	}
	return true, nil
}
