package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/test/install"
)

const (
	// atOnce is how many prunes with faults run at the same time.
	atOnce = 8
	// readyFor bounds the start of a set, firesFor the time until a request is met, restFor
	// the time until a prune has completed by itself: the end of a fence, a back-off and
	// the prune again.
	readyFor = 2 * time.Minute
	firesFor = 30 * time.Second
	restFor  = 4 * time.Minute
)

// laboratory runs the experiments.
type laboratory struct {
	client kubernetes.Interface
	proxy  *proxy
	pruner *install.Instance
	step   int // every how manieth request is met

	mu     sync.Mutex
	wrong  []string
	trials int
}

// experiment finds out which requests a prune consists of, and meets each of them with
// each fault.
func (l *laboratory) experiment(ctx context.Context) error {
	calm, err := l.trial(ctx, "calm", none, 0)
	if err != nil {
		return err
	}
	if err := l.conclude(ctx, calm); err != nil {
		return err
	}
	requests := l.proxy.requests(calm.arm)
	fmt.Printf("crash: a prune consists of %d requests:\n", len(requests))
	for i, r := range requests {
		fmt.Printf("  %2d %s\n", i+1, r)
	}
	if err := l.faults(ctx, len(requests)); err != nil {
		return err
	}
	if err := l.kills(ctx, len(requests)); err != nil {
		return err
	}
	fmt.Printf("crash: %d trials, %d violations\n", l.trials, len(l.wrong))
	for _, w := range l.wrong {
		fmt.Println("  " + w)
	}
	if len(l.wrong) > 0 {
		return fmt.Errorf("%d violations", len(l.wrong))
	}
	return nil
}

// faults meets each request with each fault that leaves the pruner alive.
func (l *laboratory) faults(ctx context.Context, requests int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, f := range []fault{conflict, expired, broken, late, cut, truncated} {
		for at := 1; at <= requests; at += l.step {
			group.Go(func() error {
				t, err := l.trial(ctx, fmt.Sprintf("%s-%d", f, at), f, at)
				if err != nil {
					return err
				}
				return l.conclude(ctx, t)
			})
		}
	}
	return group.Wait()
}

// kills ends the pruner at each request, before and after it is carried out. What is
// left behind is looked at when all are done: fences last up to a minute.
func (l *laboratory) kills(ctx context.Context, requests int) error {
	var trials []*trial
	for _, f := range []fault{killed, killedBut} {
		for at := 1; at <= requests; at += l.step {
			t, err := l.trial(ctx, fmt.Sprintf("%s-%d", f, at), f, at)
			if err != nil {
				return err
			}
			if err := l.pruner.KillPruner(); err != nil { // that it has been, nobody told the instance yet
				return fmt.Errorf("end the pruner: %w", err)
			}
			if err := l.pruner.StartPruner(ctx); err != nil {
				return fmt.Errorf("start the pruner again: %w", err)
			}
			trials = append(trials, t)
		}
	}
	for _, t := range trials {
		if err := l.conclude(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// trial scales a set down and waits until the fault has happened. In every second trial
// somebody scales up again at that very moment.
func (l *laboratory) trial(ctx context.Context, name string, f fault, at int) (*trial, error) {
	t, err := newTrial(ctx, l.client, name)
	if err != nil {
		return nil, err
	}
	t.arm = l.proxy.set(t.namespace, f, at)
	if err := t.scale(ctx, 1); err != nil {
		return nil, err
	}
	if f == none {
		return t, nil
	}
	select {
	case <-t.arm.fired:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(firesFor):
		l.proxy.disarm(t.namespace) // the last requests of a prune are not the same in each
	}
	if at%2 == 0 {
		t.up = true
		if err := t.scale(ctx, 3); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// conclude waits until the set is at rest, and judges.
func (l *laboratory) conclude(ctx context.Context, t *trial) error {
	if t.up {
		// What the scale-up found is in use again; now let it go.
		if err := t.ready(ctx, 3); err != nil {
			return err
		}
		if err := t.scale(ctx, 1); err != nil {
			return err
		}
	}
	var left []string
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, restFor, true, func(ctx context.Context) (bool, error) {
		var err error
		left, err = t.left(ctx)
		return len(left) == 0, err
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	wrong, err := t.recorder.Judge(ctx)
	if err != nil {
		return fmt.Errorf("judge %s: %w", t.namespace, err)
	}
	t.recorder.Stop()
	wrong = append(wrong, left...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trials++
	for _, w := range wrong {
		l.wrong = append(l.wrong, fmt.Sprintf("%s (at %q): %s", t.namespace, t.arm.hit, w))
	}
	return nil
}
