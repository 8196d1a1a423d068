package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
	"github.com/pvc-pruner/pvc-pruner/webhook"
)

const self = "system:serviceaccount:pvc-pruner:pvc-pruner"

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hooks are the three endpoints, called as the API server calls them.
type hooks struct {
	ctrlwebhook.Server
	handlers map[string]http.Handler
	client   *fake.Clientset
	// api takes the place of client where a test needs another one.
	api      kubernetes.Interface
	registry *prometheus.Registry
	cached   cachedSets
	// clock tells the time; tests of holds put a moving one here.
	clock func() time.Time
}

func (h *hooks) Register(path string, handler http.Handler) { h.handlers[path] = handler }

// cachedSets stands in for the cache. A nil map is one that cannot be read.
type cachedSets struct {
	client.Reader
	sets map[string]*appsv1.StatefulSet
	err  error
}

func (c cachedSets) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if c.err != nil {
		return c.err
	}
	if c.sets == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	c.sets[key.Name].DeepCopyInto(into.(*appsv1.StatefulSet)) //nolint:forcetypeassert // the webhook reads nothing else
	return nil
}

// newHooks sets the endpoints up.
func newHooks(t *testing.T) *hooks {
	t.Helper()
	h := &hooks{
		handlers: map[string]http.Handler{}, client: fake.NewClientset(), registry: prometheus.NewRegistry(),
		clock: func() time.Time { return now },
	}
	h.set(t)
	return h
}

// set sets the endpoints up, again after a test has replaced a part.
func (h *hooks) set(t *testing.T) {
	t.Helper()
	h.registry = prometheus.NewRegistry()
	api := h.api
	if api == nil {
		api = h.client
	}
	err := webhook.Setup(h, webhook.Options{
		Reader: h.cached, Client: api, Self: self, Defaults: policy.DefaultControls(policy.DefaultDelay),
		Registry: h.registry, Clock: h.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// call sends a request and returns the answer.
func (h *hooks) call(t *testing.T, path string, req admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	return h.callWithin(t, 5*time.Second, path, req)
}

// callWithin sends a request as an API server does that waits so long for the answer.
func (h *hooks) callWithin(t *testing.T, wait time.Duration, path string, req admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	req.UID, req.Namespace = "request", metav1.NamespaceDefault
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &req,
	})
	if err != nil {
		t.Fatal(err)
	}
	recorded := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path+"?timeout="+wait.String(), bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	h.handlers[path].ServeHTTP(recorded, request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorded.Body.Bytes(), &review); err != nil {
		t.Fatalf("answer %q: %v", recorded.Body, err)
	}
	if review.Response == nil || review.Response.UID != "request" {
		t.Fatalf("answer %q is not one to the request", recorded.Body)
	}
	return review.Response
}

// create is a user's request that makes a set, update one that changes stored into updated.
func create(t *testing.T, set *appsv1.StatefulSet) admissionv1.AdmissionRequest {
	t.Helper()
	return admissionv1.AdmissionRequest{
		Name: set.Name, Operation: admissionv1.Create, Object: raw(t, set), UserInfo: authenticationv1.UserInfo{Username: "user"},
	}
}

func update(t *testing.T, user string, stored, updated *appsv1.StatefulSet) admissionv1.AdmissionRequest {
	t.Helper()
	return admissionv1.AdmissionRequest{
		Name: stored.Name, Operation: admissionv1.Update, Object: raw(t, updated), OldObject: raw(t, stored),
		UserInfo: authenticationv1.UserInfo{Username: user},
	}
}

func raw(t *testing.T, object any) runtime.RawExtension {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}

// db is a set named db with the template data and these annotations of ours, key after
// value, without prefix.
func db(replicas int32, pairs ...string) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: metav1.NamespaceDefault, UID: "uid-1", Generation: 4},
		Spec:       appsv1.StatefulSetSpec{Replicas: &replicas},
	}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	return with(set, pairs...)
}

// with adds annotations to a copy.
func with(set *appsv1.StatefulSet, pairs ...string) *appsv1.StatefulSet {
	set = set.DeepCopy()
	for i := 0; i+1 < len(pairs); i += 2 {
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		set.Annotations[policy.Prefix+pairs[i]] = pairs[i+1]
	}
	return set
}

// without takes annotations away from a copy.
func without(set *appsv1.StatefulSet, keys ...string) *appsv1.StatefulSet {
	set = set.DeepCopy()
	maps.DeleteFunc(set.Annotations, func(key, _ string) bool {
		for _, k := range keys {
			if key == policy.Prefix+k {
				return true
			}
		}
		return false
	})
	return set
}

// scaled is a copy with another count.
func scaled(set *appsv1.StatefulSet, replicas int32) *appsv1.StatefulSet {
	set = set.DeepCopy()
	set.Spec.Replicas = &replicas
	return set
}

// settled is db opted in and accounted for at this count; pending scaled down since.
func settled(replicas int32, pairs ...string) *appsv1.StatefulSet {
	set := db(replicas, "enabled", "true", "record", `{"uid":"uid-1","start":0,"generation":4}`)
	return with(with(set, "prior-replicas", itoa(replicas)), pairs...)
}

func pending(prior, replicas int32, pairs ...string) *appsv1.StatefulSet {
	return with(scaled(settled(prior), replicas),
		append([]string{"target-replicas", itoa(replicas), "scaled-down-at", "2026-03-01T11:55:00Z"}, pairs...)...)
}

// equateEmpty compares a nil map and an empty one as equal.
var equateEmpty = cmpopts.EquateEmpty()

// silent is a client of an API server that never answers.
func silent(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "http://silent.invalid", QPS: -1}, &http.Client{Transport: noAnswer{}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type noAnswer struct{}

func (noAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func notFound(name string) error {
	return apierrors.NewNotFound(appsv1.Resource("statefulsets"), name)
}
