package pruner

import (
	"context"
	"errors"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// leavable is a cache whose event handlers can be taken away again. A controller leaves its
// own behind when it ends, where they would hold its memory for ever.
type leavable struct {
	cache.Cache

	mu    sync.Mutex
	added []func() error
	left  bool
}

// GetInformer implements cache.Cache.
func (l *leavable) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := l.Cache.GetInformer(ctx, obj, opts...)
	if err != nil {
		return nil, err
	}
	return &leavableInformer{Informer: informer, of: l}, nil
}

// leave takes away all handlers that were added through it.
func (l *leavable) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, remove := range l.added {
		errs = append(errs, remove())
	}
	l.added, l.left = nil, true
	if err := errors.Join(errs...); err != nil {
		logf.Log.Error(err, "Event handlers are left behind")
	}
}

type leavableInformer struct {
	cache.Informer
	of *leavable
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *leavableInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	registration, err := i.Informer.AddEventHandlerWithOptions(handler, options)
	if err != nil {
		return nil, err
	}
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	if i.of.left { // while the handler was on its way
		return registration, i.RemoveEventHandler(registration)
	}
	i.of.added = append(i.of.added, func() error { return i.RemoveEventHandler(registration) })
	return registration, nil
}
