// Package relay stands between a program and the API server, so that tests can hold
// single requests up, spoil them, or answer them differently.
package relay

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	"k8s.io/client-go/rest"
)

// Relay passes requests on to the API server, with the credentials of whoever sends them.
type Relay struct {
	server *httptest.Server
}

// Start listens on a free port of loopback. between returns what sees each request first;
// next carries it out. It lives until Close.
func Start(config *rest.Config, between func(next http.Handler) http.Handler) (*Relay, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("parse the API server's URL: %w", err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	next := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	server := httptest.NewUnstartedServer(between(next))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // cut connections are what it is for
	server.StartTLS()                                   // a client sends no token without TLS
	return &Relay{server: server}, nil
}

// URL at which the relay is reached.
func (r *Relay) URL() string { return r.server.URL }

// Authority verifies the relay, in PEM.
func (r *Relay) Authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
}

// Close cuts all connections.
func (r *Relay) Close() {
	r.server.CloseClientConnections() // watches do not end by themselves
	r.server.Close()
}
