package observer

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// catchUpFor bounds the time in which the watches deliver what a list shows.
const catchUpFor = 30 * time.Second

// latest is what a watch delivered last of an object.
type latest struct {
	revision uint64
	gone     bool
}

// catchUp waits until the watches have delivered all that had happened when it was
// called: the events of different kinds come over different connections, and one kind's
// may be here before another's that were earlier.
func (r *Recorder) catchUp(ctx context.Context) error {
	now, at, err := r.state(ctx)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(catchUpFor)
	for {
		behind := r.behind(now, at)
		if behind == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s the observer's watches had not delivered the state of %d objects", catchUpFor, behind)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// state is what exists, with the revision of each object, and the revision of the
// earliest list: what that could not have shown is nobody's to have seen.
func (r *Recorder) state(ctx context.Context) (now map[string]uint64, at uint64, err error) {
	now = map[string]uint64{}
	for _, source := range r.sources {
		items, version, err := list(ctx, source)
		if err != nil {
			return nil, 0, fmt.Errorf("list what exists: %w", err)
		}
		if v := revision(version); at == 0 || v < at {
			at = v
		}
		for _, item := range items {
			o, err := meta.Accessor(item)
			if err != nil {
				return nil, 0, fmt.Errorf("read what exists: %w", err)
			}
			now[string(o.GetUID())] = revision(o.GetResourceVersion())
		}
	}
	return now, at, nil
}

// behind counts the objects whose state of revision at was not seen yet.
func (r *Recorder) behind(now map[string]uint64, at uint64) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, revision := range now {
		if r.latest[uid].revision < revision {
			n++
		}
	}
	for uid, seen := range r.latest {
		if _, exists := now[uid]; !exists && !seen.gone && seen.revision <= at {
			n++
		}
	}
	return n
}
