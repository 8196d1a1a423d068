package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// interceptor sees each request of the pruner before the API server does. Serial scripts use it to let things happen at an
// exact moment, and to break watches.
type interceptor struct {
	next http.Handler

	mu sync.Mutex
	// hold is the request that is waited for, or held; nil for none.
	hold *heldRequest
	// watches are those of single StatefulSets that are open.
	watches map[*openWatch]bool
	// expired: watches of single StatefulSets are answered with 410.
	expired bool
	// stale answers lists of the StatefulSets of all namespaces; nil: the API server does.
	stale *staleSets
}

// heldRequest is one request that waits for the script.
type heldRequest struct {
	// after: it is carried out first, and its answer waits.
	after bool
	// method and path, which ends with the namespace and the object in it.
	method, path  string
	met, released chan struct{}
	taken         bool
}

// openWatch is a watch that passes through.
type openWatch struct {
	cut     context.CancelFunc
	stalled chan struct{} // closed when nothing more is passed on
}

// staleSets is what the pruner is told of all StatefulSets.
type staleSets struct {
	list   []byte
	thawed chan struct{}
}

func newInterceptor(next http.Handler) *interceptor {
	return &interceptor{next: next, watches: map[*openWatch]bool{}}
}

// ServeHTTP implements http.Handler.
func (i *interceptor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	watch := query.Get("watch") == "true" || query.Get("watch") == "1"
	switch {
	case strings.HasSuffix(r.URL.Path, "/apis/apps/v1/statefulsets"):
		i.serveAllSets(w, r, watch)
	case watch && strings.HasSuffix(r.URL.Path, "/statefulsets"):
		i.serveWatch(w, r)
	default:
		i.serveHeld(w, r)
	}
}

// release lets what is held go on, waits for nothing more, and says whether anything was held.
func (i *interceptor) release() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	h := i.hold
	if h == nil {
		return false
	}
	i.hold = nil
	close(h.released)
	return h.taken
}

// freeze answers with list whoever asks for all StatefulSets, and tells of no change, until thaw.
func (i *interceptor) freeze(list []byte) {
	i.thaw()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stale = &staleSets{list: list, thawed: make(chan struct{})}
}

// thaw does nothing when nothing is frozen.
func (i *interceptor) thaw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stale != nil {
		close(i.stale.thawed)
		i.stale = nil
	}
}

// heal passes everything on as it is.
func (i *interceptor) heal() {
	i.release()
	i.thaw()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.expired = false
}

// serveHeld lets a request wait if it is the one.
func (i *interceptor) serveHeld(w http.ResponseWriter, r *http.Request) {
	hold := i.take(r)
	if hold == nil {
		i.next.ServeHTTP(w, r)
		return
	}
	if hold.after {
		i.next.ServeHTTP(&late{ResponseWriter: w, wait: func() { hold.pause(r) }}, r)
		return
	}
	hold.pause(r)
	i.next.ServeHTTP(w, r)
}

// take returns the hold if the request is the one, which it is only once.
func (i *interceptor) take(r *http.Request) *heldRequest {
	i.mu.Lock()
	defer i.mu.Unlock()
	h := i.hold
	if h == nil || h.taken || r.Method != h.method || !strings.HasSuffix(r.URL.Path, h.path) {
		return nil
	}
	h.taken = true
	return h
}

// pause tells the script, and waits for it or for the end of the request.
func (h *heldRequest) pause(r *http.Request) {
	close(h.met)
	select {
	case <-h.released:
	case <-r.Context().Done():
	}
}

// late waits before it begins to answer.
type late struct {
	http.ResponseWriter
	wait func()
	once sync.Once
}

// Unwrap lets the answer be flushed.
func (l *late) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (l *late) WriteHeader(code int) {
	l.once.Do(l.wait)
	l.ResponseWriter.WriteHeader(code)
}

// serveWatch passes a watch of one namespace on until the script cuts or stalls it.
func (i *interceptor) serveWatch(w http.ResponseWriter, r *http.Request) {
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	watch := &openWatch{cut: cut, stalled: make(chan struct{})}
	i.mu.Lock()
	expired := i.expired
	i.watches[watch] = true
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.watches, watch)
	}()
	if expired {
		answerStatus(w, http.StatusGone, metav1.StatusReasonExpired)
		return
	}
	i.next.ServeHTTP(&stream{ResponseWriter: w, stalled: watch.stalled}, r.WithContext(ctx))
	select {
	case <-watch.stalled: // the client does not learn of the end either
		<-r.Context().Done()
	default:
	}
}

// stream is what a watch is told, until it stalls.
type stream struct {
	http.ResponseWriter
	stalled chan struct{}
}

// Unwrap lets the stream be flushed.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write implements io.Writer.
func (s *stream) Write(data []byte) (int, error) {
	select {
	case <-s.stalled:
		return len(data), nil
	default:
		return s.ResponseWriter.Write(data)
	}
}

// serveAllSets answers the informer.
func (i *interceptor) serveAllSets(w http.ResponseWriter, r *http.Request, watch bool) {
	i.mu.Lock()
	stale := i.stale
	i.mu.Unlock()
	switch {
	case stale == nil:
		i.next.ServeHTTP(w, r)
	case !watch:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(stale.list)
	case r.URL.Query().Get("sendInitialEvents") != "":
		answerStatus(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid) // the client lists instead
	default: // a watch that tells of nothing
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-stale.thawed:
		case <-r.Context().Done():
		}
	}
}

func answerStatus(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}
