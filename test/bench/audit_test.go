package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachRequestCountsOnce(t *testing.T) {
	log := `{"stage":"ResponseStarted","verb":"watch","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"watch","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"update","objectRef":{"resource":"statefulsets","subresource":"scale"}}
{"stage":"ResponseComplete","verb":"get"}
`
	calls, err := readCalls(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"watch pods": 1, "update statefulsets/scale": 1, "get ": 1}
	if diff := cmp.Diff(want, breakdown(calls)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
