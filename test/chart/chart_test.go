package chart

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

const (
	chartFolder = "../../charts/pvc-pruner"
	release     = "pvc-pruner"
	namespace   = "pvc-pruner"
	url         = "https://127.0.0.1:9443"
)

// helm runs helm template with the chart and returns what it prints.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return helmAs(t, release, args...)
}

// helmAs does so for a release of another name.
func helmAs(t *testing.T, release string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	programs, err := builder.Build(t.Context(), builder.ControlPlane, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"template", release, chartFolder, "--namespace", namespace, "--skip-tests"}, args...)
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs, "helm"), args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), string(exit.Stderr), err
	}
	return string(out), "", err
}

// render returns the text that the chart renders with a URL and the given arguments.
func render(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, err := helm(t, append([]string{"--set", "webhook.url=" + url}, args...)...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, stderr)
	}
	return out
}

// objects decodes a rendered text strictly: an unknown or repeated field is an error.
func objects(t *testing.T, text string) []runtime.Object {
	t.Helper()
	decoder := strictDecoder()
	var out []runtime.Object
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		data, err := yaml.ToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		if string(data) == "null" {
			continue
		}
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("decode: %v\n%s", err, document)
		}
		out = append(out, object)
	}
	return out
}

// one returns the only object of its type.
func one[T runtime.Object](t *testing.T, all []runtime.Object) T {
	t.Helper()
	var found []T
	for _, o := range all {
		if typed, ok := o.(T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}

func strictDecoder() runtime.Decoder {
	return serializer.NewCodecFactory(clientgoscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
}
