package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pvc-pruner/pvc-pruner/test/relay"
)

// fault is what happens to one request.
type fault string

const (
	none      fault = ""
	conflict  fault = "409"
	expired   fault = "410"
	broken    fault = "500"
	late      fault = "late"      // no answer for longer than a DELETE may take
	cut       fault = "cut"       // executed, and the connection cut before the answer
	truncated fault = "truncated" // executed, and half the answer
	killed    fault = "kill"      // the pruner is killed before it is executed
	killedBut fault = "kill-after"
)

// lateness of an answer; a DELETE is given up after 5 s.
const lateness = 6 * time.Second

// proxy lets requests pass, but for one of each armed namespace.
type proxy struct {
	next http.Handler
	// kill ends the pruner.
	kill func() error

	mu   sync.Mutex
	arms map[string]*arm
}

// arm is what a namespace waits for.
type arm struct {
	fault fault
	at    int // the request that meets it, counted from 1
	seen  []string
	fired chan struct{} // closed when it has
	hit   string        // the request that did
}

// startProxy returns a proxy, and the relay that it decides for.
func startProxy(config *rest.Config) (*proxy, *relay.Relay, error) {
	p := &proxy{arms: map[string]*arm{}}
	r, err := relay.Start(config, func(next http.Handler) http.Handler {
		p.next = next
		return p
	})
	return p, r, err
}

// set arms a namespace.
func (p *proxy) set(namespace string, f fault, at int) *arm {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &arm{fault: f, at: at, fired: make(chan struct{})}
	p.arms[namespace] = a
	return a
}

// disarm lets all further requests of a namespace pass.
func (p *proxy) disarm(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.arms, namespace)
}

// requests are what a namespace has sent since it was armed.
func (p *proxy) requests(a *arm) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), a.seen...)
}

// met counts a request and returns the fault that it meets. done tells that it has
// happened.
func (p *proxy) met(r *http.Request) (f fault, done func()) {
	parts := strings.Split(r.URL.Path, "/")
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, part := range parts {
		if part != "namespaces" || i+1 == len(parts) || p.arms[parts[i+1]] == nil {
			continue
		}
		a := p.arms[parts[i+1]]
		what := r.Method + " " + strings.Join(parts[i+2:], "/")
		a.seen = append(a.seen, what)
		if len(a.seen) != a.at {
			return none, nil
		}
		a.hit = what
		return a.fault, func() { close(a.fired) }
	}
	return none, nil
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch f, done := p.met(r); f {
	case conflict, expired, broken:
		done()
		refuse(w, f)
	case late:
		done()               // what is late has begun
		time.Sleep(lateness) // the fault itself
		refuse(w, "504")
	case cut, truncated:
		done()
		p.mangle(w, r, f)
	case killed:
		p.end(done)
	case killedBut:
		p.next.ServeHTTP(newAnswer(), r)
		p.end(done)
	default:
		p.next.ServeHTTP(w, r)
	}
}

// refuse answers as the API server would.
func refuse(w http.ResponseWriter, code fault) {
	reasons := map[fault]string{conflict: "Conflict", expired: "Expired", broken: "InternalError", "504": "Timeout"}
	status, _ := strconv.Atoi(string(code)) // one of those above
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"injected"}`, reasons[code], status)
}

// mangle carries the request out and spoils the answer.
func (p *proxy) mangle(w http.ResponseWriter, r *http.Request, f fault) {
	if r.URL.Query().Get("watch") != "" { // a watch has no end of its own
		panic(http.ErrAbortHandler)
	}
	answer := newAnswer()
	p.next.ServeHTTP(answer, r)
	if f == cut {
		panic(http.ErrAbortHandler)
	}
	body := answer.body.Bytes()
	maps.Copy(w.Header(), answer.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(answer.code)
	_, _ = io.Copy(w, bytes.NewReader(body[:len(body)/2]))
	panic(http.ErrAbortHandler) // the other half never comes
}

// end kills the pruner, with this connection, before it is told: whoever hears of it
// starts another, which must not be the one that is killed.
func (p *proxy) end(done func()) {
	if err := p.kill(); err != nil {
		fmt.Println("crash: kill:", err)
	}
	done()
	panic(http.ErrAbortHandler)
}
