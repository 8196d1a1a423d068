package cluster

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// volumeRecord notes the host folders of provisioned volumes, for the watchdog to remove what the provisioner did not:
// volumes that still exist at the end, and retained ones. The provisioner's root is one for the whole machine, so
// nothing but what this cluster made may go.
type volumeRecord struct {
	client kubernetes.Interface
	path   string
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	known map[string]bool
}

// recordVolumes keeps the record until finish.
func recordVolumes(client kubernetes.Interface, path string) *volumeRecord {
	ctx, cancel := context.WithCancel(context.Background())
	r := &volumeRecord{client: client, path: path, cancel: cancel, done: make(chan struct{}), known: map[string]bool{}}
	go func() {
		defer close(r.done)
		r.follow(ctx)
	}()
	return r
}

// follow lists and watches; when the API server is stopped by a test it tries again until it is back.
func (r *volumeRecord) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if version, err := r.list(ctx); err == nil {
			r.watch(ctx, version)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (r *volumeRecord) list(ctx context.Context) (resourceVersion string, err error) {
	list, err := r.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list persistent volumes: %w", err)
	}
	for i := range list.Items {
		r.note(&list.Items[i])
	}
	return list.ResourceVersion, nil
}

func (r *volumeRecord) watch(ctx context.Context, resourceVersion string) {
	watcher, err := r.client.CoreV1().PersistentVolumes().Watch(ctx, metav1.ListOptions{ResourceVersion: resourceVersion})
	if err != nil {
		return
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if volume, ok := event.Object.(*corev1.PersistentVolume); ok && event.Type != watch.Deleted {
			r.note(volume)
		}
	}
}

// finish takes a last look, which sees what a watch had not delivered yet, and ends the record. It is called after
// kube-controller-manager is gone: nothing is provisioned any more.
func (r *volumeRecord) finish() {
	r.cancel()
	<-r.done
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _ = r.list(ctx) // a test may have stopped the API server: then the watch's record is all there is
}

func (r *volumeRecord) note(volume *corev1.PersistentVolume) {
	folder := hostFolder(volume)
	r.mu.Lock()
	defer r.mu.Unlock()
	if folder == "" || r.known[folder] {
		return
	}
	file, err := os.OpenFile(r.path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	if _, err := fmt.Fprintln(file, folder); err == nil {
		r.known[folder] = true
	}
}

// hostFolder returns the folder that the provisioner made for the volume; empty for any other volume, so that a
// hand-written one that points at /etc is never recorded.
func hostFolder(volume *corev1.PersistentVolume) string {
	made := regexp.MustCompile(`^/tmp/hostpath_pv/[0-9a-f-]{36}$`)
	if volume.Annotations["pv.kubernetes.io/provisioned-by"] != provisioner || volume.Spec.HostPath == nil {
		return ""
	}
	if !made.MatchString(volume.Spec.HostPath.Path) {
		return ""
	}
	return volume.Spec.HostPath.Path
}
