package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// candidates stand for election for the same lease, and count how many work at a time.
type candidates struct {
	client  *fake.Clientset
	working atomic.Int32
	begun   atomic.Int32
	most    atomic.Int32
	// given: somebody else wrote the lease. The fake compares no versions, so that the next write must be refused here.
	given atomic.Bool
}

func newCandidates() *candidates {
	c := &candidates{client: fake.NewClientset()}
	c.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if !c.given.Swap(false) {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "lease", errors.New("somebody else wrote it"))
	})
	return c
}

func (c *candidates) start(ctx context.Context, name string, work func(context.Context) error) <-chan error {
	ended := make(chan error, 1)
	e := &election{
		lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "ours", Name: "lease"}, Client: c.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		work: func(ctx context.Context) error {
			c.begun.Add(1)
			c.most.Store(max(c.most.Load(), c.working.Add(1)))
			defer c.working.Add(-1)
			return work(ctx)
		},
	}
	go func() { ended <- e.Start(ctx) }()
	return ended
}

func (c *candidates) holder(t *testing.T) string {
	t.Helper()
	lease, err := c.client.CoordinationV1().Leases("ours").Get(t.Context(), "lease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

// give the lease to somebody who does not renew it.
func (c *candidates) give(t *testing.T, to string) {
	t.Helper()
	lease, err := c.client.CoordinationV1().Leases("ours").Get(t.Context(), "lease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &to, &now
	if _, err := c.client.CoordinationV1().Leases("ours").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.given.Store(true)
}

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestWhoLosesTheLeaseStandsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newCandidates()
		ended := c.start(ctx, "a", untilDone)
		time.Sleep(time.Second)
		if c.working.Load() != 1 {
			t.Fatal("nobody works")
		}
		c.give(t, "nobody")
		time.Sleep(renewDeadline + retryPeriod)
		if c.working.Load() != 0 {
			t.Error("it works without the lease")
		}
		time.Sleep(leaseDuration + 2*retryPeriod)
		if c.working.Load() != 1 || c.begun.Load() != 2 {
			t.Errorf("%d work, %d began, want 1 and 2", c.working.Load(), c.begun.Load())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := c.holder(t); got != "" {
			t.Errorf("the lease is still held by %q", got)
		}
		time.Sleep(time.Minute)
	})
}

// The next one begins only when work in hand has ended.
func TestTheLeaseIsKeptUntilWorkHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const inHand = 25 * time.Second
		first, cancelFirst := context.WithCancel(t.Context())
		both, cancel := context.WithCancel(t.Context())
		c := newCandidates()
		ended := c.start(first, "a", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(inHand); return nil })
		time.Sleep(time.Second)
		other := c.start(both, "b", untilDone)
		time.Sleep(time.Minute)
		cancelFirst()
		time.Sleep(inHand - time.Second)
		if got := c.holder(t); got != "a" || c.begun.Load() != 1 {
			t.Errorf("held by %q while a still works; %d began", got, c.begun.Load())
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(2 * retryPeriod)
		if got := c.holder(t); got != "b" || c.begun.Load() != 2 || c.most.Load() != 1 {
			t.Errorf("held by %q, %d began, at most %d at a time", got, c.begun.Load(), c.most.Load())
		}
		cancel()
		if err := <-other; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

func TestACandidateThatIsNotElectedEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newCandidates()
		leader := c.start(t.Context(), "a", untilDone)
		time.Sleep(time.Second)
		ended := c.start(ctx, "b", untilDone)
		time.Sleep(time.Minute)
		cancel()
		began := time.Now()
		if err := <-ended; err != nil || time.Since(began) > time.Second {
			t.Errorf("ended after %s: %v", time.Since(began), err)
		}
		if got := c.holder(t); got != "a" {
			t.Errorf("held by %q", got)
		}
		_ = leader
	})
}

// Work that cannot be done ends the process, which tells why.
func TestWorkThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the cache did not sync")
		c := newCandidates()
		if err := <-c.start(t.Context(), "a", func(context.Context) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		if got := c.holder(t); got != "" {
			t.Errorf("the lease is still held by %q", got)
		}
		time.Sleep(time.Minute)
	})
}
