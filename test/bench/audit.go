package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// auditLog is the API server's record of requests.
type auditLog struct{ path string }

// call is one request, as far as it is looked at.
type call struct {
	Stage string
	Verb  string
	User  struct{ Username string }
	// ObjectRef is absent for requests that are not about objects.
	ObjectRef *struct{ Resource, Subresource string }
}

func (c call) resource() string {
	if c.ObjectRef == nil {
		return ""
	}
	if c.ObjectRef.Subresource != "" {
		return c.ObjectRef.Resource + "/" + c.ObjectRef.Subresource
	}
	return c.ObjectRef.Resource
}

// end is where the record ends now.
func (a auditLog) end() (int64, error) {
	info, err := os.Stat(a.path)
	if err != nil {
		return 0, fmt.Errorf("look at the audit log: %w", err)
	}
	return info.Size(), nil
}

// since returns the requests recorded after a position. A watch counts when it is opened, everything else when it is
// answered: each request once.
func (a auditLog) since(position int64) (calls []call, err error) {
	file, err := os.Open(a.path)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Seek(position, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return readCalls(file)
}

func readCalls(source io.Reader) (calls []call, err error) {
	scanner := bufio.NewScanner(source)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var c call
		if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		counted := "ResponseComplete"
		if c.Verb == "watch" {
			counted = "ResponseStarted"
		}
		if c.Stage == counted {
			calls = append(calls, c)
		}
	}
	return calls, scanner.Err()
}

// breakdown counts requests by verb and resource.
func breakdown(calls []call) map[string]int {
	counts := map[string]int{}
	for _, c := range calls {
		counts[c.Verb+" "+c.resource()]++
	}
	return counts
}
