package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The module that brings the custom resource definitions, and those that are needed.
const snapshotModule = "github.com/kubernetes-csi/external-snapshotter/client/v8"

var snapshotKinds = []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"}

// snapshotter makes VolumeSnapshots known to the cluster until the end of the script, and plays the CSI side of them.
func snapshotter(ctx context.Context, s *script, _ []string) error {
	if err := s.mayBreak("cluster without VolumeSnapshots"); err != nil {
		return err
	}
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", snapshotModule).Output()
	if err != nil {
		return fmt.Errorf("find the definitions of %s: %w", snapshotModule, err)
	}
	var files []string
	for _, kind := range snapshotKinds {
		files = append(files, "-f", filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", "snapshot.storage.k8s.io_"+kind+".yaml"))
	}
	if err := s.run(ctx, append([]string{"apply"}, files...)...); err != nil {
		return err
	}
	client, err := snapshotclient.NewForConfig(s.cluster.Config())
	if err != nil {
		return fmt.Errorf("make the client for VolumeSnapshots: %w", err)
	}
	playing, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.playSnapshots(playing, client)
	}()
	s.atEnd = append(s.atEnd, func(ctx context.Context) error {
		stop()
		<-ended
		return s.run(ctx, append([]string{"delete", "--wait=true"}, files...)...)
	})
	return poll(ctx, func(ctx context.Context) (string, error) {
		_, err := client.SnapshotV1().VolumeSnapshots(s.namespace).List(ctx, metav1.ListOptions{})
		return "", err
	})
}

// run runs kubectl as the cluster's admin.
func (s *script) run(ctx context.Context, args ...string) error {
	output, err := exec.CommandContext(ctx, s.cluster.Program("kubectl"), append([]string{"--kubeconfig", s.cluster.Kubeconfig()}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl %s: %w\n%s", args[0], err, output)
	}
	return nil
}

// playSnapshots looks at the VolumeSnapshots of the namespace until the context ends. What goes wrong is tried again.
func (s *script) playSnapshots(ctx context.Context, client snapshotclient.Interface) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		list, err := client.SnapshotV1().VolumeSnapshots(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range list.Items {
			_ = s.playSnapshot(ctx, client, &list.Items[i]) // again at the next look
		}
	}
}

// playSnapshot brings one VolumeSnapshot a step further, as the class says.
func (s *script) playSnapshot(ctx context.Context, client snapshotclient.Interface, vs *snapshotv1.VolumeSnapshot) error {
	if vs.Status != nil && (vs.Status.Error != nil || vs.Status.ReadyToUse != nil && *vs.Status.ReadyToUse) || vs.Spec.Source.PersistentVolumeClaimName == nil {
		return nil
	}
	var class string
	if vs.Spec.VolumeSnapshotClassName != nil {
		class = *vs.Spec.VolumeSnapshotClassName
	}
	vs.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(false)}
	switch {
	case class == "failed":
		vs.Status.Error = &snapshotv1.VolumeSnapshotError{Message: new("the storage is full")}
	case class == "ready" && time.Since(vs.CreationTimestamp.Time) > time.Second:
		vs.Status.ReadyToUse = new(true)
	}
	_, err := client.SnapshotV1().VolumeSnapshots(s.namespace).UpdateStatus(ctx, vs, metav1.UpdateOptions{})
	return err
}
