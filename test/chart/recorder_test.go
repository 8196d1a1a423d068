package chart

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

// recorder is a webhook that allows everything and notes what it was asked.
type recorder struct {
	*httptest.Server

	mu    sync.Mutex
	calls map[string][]string // paths by the name of the object
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{calls: map[string][]string{}}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(r.answer))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) answer(w http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.calls[review.Request.Name] = append(r.calls[review.Request.Name], req.URL.Path)
	r.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// taken returns the paths called for an object since the last time, sorted, each once:
// after a conflict with another writer the API server asks again.
func (r *recorder) taken(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	paths := r.calls[name]
	delete(r.calls, name)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// authority is the certificate that verifies the server, in PEM.
func (r *recorder) authority() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}))
}
