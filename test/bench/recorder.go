package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// recorder notes when pods go, and when their claims are marked for deletion and go, by one clock: that of the arrival
// of the events.
type recorder struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	wanted int
	done   chan struct{} // closed when as many claims are gone as are wanted

	mu      sync.Mutex
	podGone map[string]time.Time // by the name of the claim
	marked  map[string]time.Time
	gone    map[string]time.Time
	err     error
}

// record follows a namespace until stop; wanted is how many claims are to go.
func record(ctx context.Context, client kubernetes.Interface, namespace string, wanted int) (*recorder, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &recorder{
		cancel: cancel, wanted: wanted, done: make(chan struct{}),
		podGone: map[string]time.Time{}, marked: map[string]time.Time{}, gone: map[string]time.Time{},
	}
	pods, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	claims, err := client.CoreV1().PersistentVolumeClaims(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch claims: %w", err)
	}
	for _, w := range []watch.Interface{pods, claims} {
		r.ended.Go(func() { r.follow(ctx, w) })
	}
	return r, nil
}

func (r *recorder) follow(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for event := range w.ResultChan() {
		r.note(event, time.Now())
	}
	if ctx.Err() == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = errors.New("a watch ended early: events were missed")
	}
}

func (r *recorder) note(event watch.Event, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch object := event.Object.(type) {
	case *corev1.Pod:
		if event.Type == watch.Deleted {
			r.podGone["data-"+object.Name] = at
		}
	case *corev1.PersistentVolumeClaim:
		if r.marked[object.Name].IsZero() && (object.DeletionTimestamp != nil || event.Type == watch.Deleted) {
			r.marked[object.Name] = at
		}
		if event.Type == watch.Deleted {
			if r.gone[object.Name] = at; len(r.gone) == r.wanted {
				close(r.done)
			}
		}
	}
}

// await waits until all wanted claims are gone.
func (r *recorder) await(ctx context.Context) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Errorf("%d of %d claims are gone: %w", len(r.gone), r.wanted, errors.Join(r.err, context.Cause(ctx)))
	}
}

// stop ends the record; what it holds may be read afterwards.
func (r *recorder) stop() error {
	r.cancel()
	r.ended.Wait()
	return r.err
}

// last is when the last claim went.
func (r *recorder) last() (last time.Time) {
	for _, at := range r.gone {
		if at.After(last) {
			last = at
		}
	}
	return last
}

// reactions are the times from a pod's end to the mark on its claim.
func (r *recorder) reactions() (all []time.Duration) {
	for name, gone := range r.podGone {
		if marked, ok := r.marked[name]; ok {
			all = append(all, marked.Sub(gone))
		}
	}
	return all
}
