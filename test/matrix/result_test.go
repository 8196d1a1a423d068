package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

func TestScriptsAreCountedAndTheirGroupsAreNot(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"run","Test":"TestScripts/parallel/a1"}
{"Action":"output","Test":"TestScripts/parallel/a1","Output":"one\n"}
{"Action":"pass","Test":"TestScripts/parallel/a1"}
{"Action":"skip","Test":"TestScripts/parallel/a2"}
{"Action":"pass","Test":"TestScripts/parallel/must-fail/kept.txtar"}
{"Action":"pass","Test":"TestScripts/parallel"}
{"Action":"fail","Test":"TestScripts/serial/f8"}
{"Action":"output","Output":"FAIL\n"}
{"Action":"fail","Test":"TestScripts/serial"}
{"Action":"fail","Test":"TestScripts"}
{"Action":"fail"}
`
	var r result
	var log strings.Builder
	if err := r.readScripts(strings.NewReader(events), &log); err != nil {
		t.Fatal(err)
	}
	if r.passed != 2 || r.skipped != 1 || len(r.failed) != 1 || r.failed[0] != "serial/f8" {
		t.Errorf("passed %d, skipped %d, failed %v", r.passed, r.skipped, r.failed)
	}
	if log.String() != "one\nFAIL\n" {
		t.Errorf("log: %q", log.String())
	}
}

func TestWhatIsNoJSONIsAnError(t *testing.T) {
	t.Parallel()
	if err := new(result).readScripts(strings.NewReader("panic: "), io.Discard); err == nil {
		t.Error("no error")
	}
}

func TestOnlyScriptsThatRanAndPassedAreASuccess(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		r    result
		want bool
	}{
		"all passed":                  {result{passed: 2, skipped: 1}, true},
		"one failed":                  {result{passed: 2, failed: []string{"serial/f8"}}, false},
		"go test failed without them": {result{passed: 2, err: errors.New("exit status 1")}, false},
		"none ran":                    {result{}, false},
		"none but skipped ones":       {result{skipped: 1}, false},
	} {
		if got := tt.r.ok(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheTableNamesWhatFailed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := printTable(&out, []result{
		{minor: builder.Minor{Name: "v1.1", Version: "v1.1.4"}, passed: 12, took: 61 * time.Second},
		{minor: builder.Minor{Name: "v1.2", Version: "v1.2.0"}, passed: 10, failed: []string{"serial/f8", "parallel/a1"}, skipped: 1},
		{minor: builder.Minor{Name: "v1.3", Version: "v1.3.0"}, err: errors.New("build the control plane: no space\nleft")},
		{minor: builder.Minor{Name: "v1.4", Version: "v1.4.0"}},
	}); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	want := []string{
		"MINOR  VERSION  PASSED  FAILED  SKIPPED  SECONDS",
		"v1.1   v1.1.4   12      0       0        61",
		"v1.2   v1.2.0   10      2       1        0        parallel/a1 serial/f8",
		"v1.3   v1.3.0   0       0       0        0        build the control plane: no space",
		"v1.4   v1.4.0   0       0       0        0        no script ran",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}
