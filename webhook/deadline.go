package webhook

import (
	"context"
	"net/http"
	"time"
)

// patience is how long the API server waits for an answer if it does not say so.
const patience = 5 * time.Second

// inTime ends the work of a handler before the API server stops waiting for it. Under
// failurePolicy Ignore an answer that comes too late is one that allows: a scale-up would
// pass a fence that its handler has seen.
func inTime(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeFor(r))
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// timeFor leaves a fifth of the time that the API server waits, as it tells in the query,
// for the way of the answer.
func timeFor(r *http.Request) time.Duration {
	waits, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || waits <= 0 {
		waits = patience
	}
	return waits * 4 / 5
}
