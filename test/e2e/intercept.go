package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// methods of HTTP by Kubernetes' verbs.
var methods = map[string]string{
	"create": http.MethodPost, "delete": http.MethodDelete, "get": http.MethodGet, "patch": http.MethodPatch, "update": http.MethodPut,
}

// hold makes the pruner's next request of a kind wait, before it is carried out or before it is answered.
func hold(_ context.Context, s *script, args []string) error {
	if err := s.mayBreak("pruner's requests"); err != nil {
		return err
	}
	method, ok := methods[args[1]]
	switch {
	case args[0] != "before" && args[0] != "after":
		return usagef("%q is neither before nor after", args[0])
	case !ok:
		return usagef("%q is none of %s", args[1], strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
	case !strings.Contains(args[2], "/"):
		return usagef("%q is not RESOURCE/NAME, such as persistentvolumeclaims/data-db-0", args[2])
	}
	i := s.interceptor
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.hold != nil {
		return usagef("a request is waited for or held already")
	}
	i.hold = &heldRequest{
		after: args[0] == "after", method: method, path: "/namespaces/" + s.namespace + "/" + args[2],
		met: make(chan struct{}), released: make(chan struct{}),
	}
	return nil
}

// waitHeld waits until the request that hold named is there.
func waitHeld(ctx context.Context, s *script, _ []string) error {
	s.interceptor.mu.Lock()
	held := s.interceptor.hold
	s.interceptor.mu.Unlock()
	if held == nil {
		return usagef("no request is waited for: hold comes first")
	}
	select {
	case <-held.met:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: the pruner did not send %s …%s", context.Cause(ctx), held.method, held.path)
	}
}

// release lets the held request go on.
func release(_ context.Context, s *script, _ []string) error {
	if !s.interceptor.release() {
		return usagef("no request is held: wait-held comes first")
	}
	return nil
}

// watches breaks the pruner's watches of single StatefulSets, or opens them again.
func watches(_ context.Context, s *script, args []string) error {
	if err := s.mayBreak("pruner's watches"); err != nil {
		return err
	}
	i := s.interceptor
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.watches) == 0 && args[0] != "heal" {
		return errors.New("no watch of a StatefulSet is open")
	}
	switch args[0] {
	case "cut", "expire":
		i.expired = args[0] == "expire"
		for w := range i.watches {
			w.cut()
		}
	case "stall":
		for w := range i.watches {
			close(w.stalled)
			delete(i.watches, w)
		}
	case "heal":
		i.expired = false
	default:
		return usagef("%q is none of cut, expire, stall and heal", args[0])
	}
	return nil
}

// cache freezes what the pruner is told of all StatefulSets together, or tells it the truth again.
func cache(ctx context.Context, s *script, args []string) error {
	if err := s.mayBreak("pruner's cache"); err != nil {
		return err
	}
	switch args[0] {
	case "freeze":
		list, err := s.client.AppsV1().RESTClient().Get().Resource("statefulsets").SetHeader("Accept", "application/json").DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("list all StatefulSets: %w", err)
		}
		s.interceptor.freeze(list)
	case "thaw":
		s.interceptor.thaw()
	default:
		return usagef("%q is neither freeze nor thaw", args[0])
	}
	return nil
}
