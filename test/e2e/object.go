package e2e

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// object is what KIND/NAME of a script stands for. Two spellings of one object are equal.
type object struct {
	resource   schema.GroupVersionResource
	kind       string
	namespaced bool
	name       string
}

func (o object) String() string { return strings.ToLower(o.kind) + "/" + o.name }

// splitObject splits KIND/NAME.
func splitObject(text string) (kind, name string, err error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return "", "", usagef("%q is not KIND/NAME", text)
	}
	return kind, name, nil
}

// object finds out what KIND/NAME stands for. KIND is anything that kubectl takes: pvc, sts, statefulsets.apps,
// StatefulSet.
func (s *script) object(text string) (object, error) {
	kind, name, err := splitObject(text)
	if err != nil {
		return object{}, err
	}
	o, err := s.kind(kind)
	o.name = name
	return o, err
}

// objectsOf finds out what each KIND/NAME stands for.
func (s *script) objectsOf(texts []string) ([]object, error) {
	var all []object
	for _, text := range texts {
		o, err := s.object(text)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// kind finds out what KIND stands for; the name of the result is empty.
func (s *script) kind(kind string) (object, error) {
	group := schema.ParseGroupResource(strings.ToLower(kind))
	gvk, err := s.mapper.KindFor(group.WithVersion(""))
	if err != nil {
		return object{}, usagef("%q is no kind of this cluster: %v", kind, err)
	}
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return object{}, usagef("%q is no kind of this cluster: %v", kind, err)
	}
	return object{
		resource: mapping.Resource, kind: gvk.Kind,
		namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
	}, nil
}

// access returns the client of the object's resource in the script's namespace.
func (s *script) access(o object) dynamic.ResourceInterface {
	if !o.namespaced {
		return s.objects.Resource(o.resource)
	}
	return s.objects.Resource(o.resource).Namespace(s.namespace)
}

func (s *script) get(ctx context.Context, o object) (*unstructured.Unstructured, error) {
	found, err := s.access(o).Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o, err)
	}
	return found, nil
}
