package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// How the lease is kept: the values of Kubernetes' own controllers. Of two that think they
// lead for a moment, the fence keeps one from harm.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// election lets work run while this process holds the lease. When the lease is lost, work
// ends and the process stands for election again: it goes on answering admission requests,
// which leading has nothing to do with. (The manager's own election ends the process.)
type election struct {
	lock resourcelock.Interface
	// work runs until its context ends.
	work func(context.Context) error
}

// Start implements manager.Runnable: it stands for election again and again until the
// context ends and work has ended.
func (e *election) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := e.term(ctx); err != nil {
			return err
		}
	}
	return nil
}

// term waits for the lease and works until it is lost or the context ends. It returns when
// work has ended, and only then gives the lease back: nobody else begins before.
func (e *election) term(ctx context.Context) error {
	candidacy, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	t := &term{done: make(chan struct{})}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, Name: "pvc-pruner", ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				if !t.begin() {
					return
				}
				defer close(t.done)
				defer resign()
				working, cancel := context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(leading, cancel)()
				t.err = e.work(working)
			},
			OnStoppedLeading: func() {
				if ctx.Err() == nil {
					logf.Log.Info("Lost the lease, standing for election again")
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	defer context.AfterFunc(ctx, func() {
		if !t.working() {
			resign()
		}
	})()
	elector.Run(candidacy)
	return t.end()
}

// term tells whether work has begun: the elector starts it beside itself and does not wait for it.
type term struct {
	mu           sync.Mutex
	begun, ended bool
	done         chan struct{} // closed when work has ended
	err          error         // of work
}

// begin is false when the term is over already.
func (t *term) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = !t.ended
	return t.begun
}

func (t *term) working() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun
}

// end waits until work has ended, if it began, and sees to it that it does not begin.
func (t *term) end() error {
	t.mu.Lock()
	t.ended = true
	begun := t.begun
	t.mu.Unlock()
	if !begun {
		return nil
	}
	<-t.done
	return t.err
}
