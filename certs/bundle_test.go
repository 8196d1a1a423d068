package certs

import (
	"bytes"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func mutatingConfig(config admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hooks"},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "m.example.com", ClientConfig: config}},
	}
}

func validatingConfig(config admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hooks"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "v.example.com", ClientConfig: config}, {Name: "w.example.com", ClientConfig: config},
		},
	}
}

func updates(client *fake.Clientset) (n int) {
	for _, action := range client.Actions() {
		if action.GetVerb() == "update" {
			n++
		}
	}
	return n
}

func TestTheBundleIsWrittenIntoEveryWebhookOnce(t *testing.T) {
	config := byURL("https://localhost", []byte("old"))
	client := fake.NewClientset(mutatingConfig(config), validatingConfig(config))
	for range 2 {
		if err := InjectCABundle(t.Context(), client, "hooks", []byte("new")); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := webhooks(t.Context(), client, "hooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m.example.com", "v.example.com", "w.example.com"} {
		if !bytes.Equal(stored[name].CABundle, []byte("new")) {
			t.Errorf("%s has the bundle %q", name, stored[name].CABundle)
		}
	}
	if n := updates(client); n != 2 {
		t.Errorf("%d writes, want one for each configuration", n)
	}
}

func TestAConflictIsTriedAgain(t *testing.T) {
	config := byURL("https://localhost", nil)
	client := fake.NewClientset(mutatingConfig(config), validatingConfig(config))
	refused := false
	client.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refused {
			return false, nil, nil
		}
		refused = true
		return true, nil, apierrors.NewConflict(schema.GroupResource{}, "hooks", nil)
	})
	if err := InjectCABundle(t.Context(), client, "hooks", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if n := updates(client); n != 3 {
		t.Errorf("%d writes, want 3", n)
	}
}

func TestAMissingConfigurationIsNamed(t *testing.T) {
	err := InjectCABundle(t.Context(), fake.NewClientset(), "hooks", []byte("new"))
	if err == nil || !strings.Contains(err.Error(), "MutatingWebhookConfiguration hooks, which the chart installs") {
		t.Errorf("error %v does not say what to install", err)
	}
}
