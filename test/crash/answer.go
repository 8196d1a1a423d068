package main

import (
	"bytes"
	"net/http"
)

// answer holds back what the API server says.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{header: http.Header{}, code: http.StatusOK} }

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = code }

// Write implements http.ResponseWriter.
func (a *answer) Write(data []byte) (int, error) { return a.body.Write(data) }
