package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

// result is what came of one minor.
type result struct {
	minor   builder.Minor
	passed  int
	skipped int
	failed  []string // names of scripts
	took    time.Duration
	// err is why the run itself failed, with or without a script that did.
	err error
}

func (r result) ok() bool { return r.err == nil && len(r.failed) == 0 && r.passed > 0 }

// readScripts adds what `go test -json` tells of scripts, and copies what the tests print to log.
func (r *result) readScripts(events io.Reader, log io.Writer) error {
	decoder := json.NewDecoder(events)
	for {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("decode what go test says: %w", err)
		}
		if _, err := io.WriteString(log, event.Output); err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
		r.count(event.Action, event.Test)
	}
}

// count counts a test if it is a script: TestScripts/parallel/a5-start-one, but not what it is grouped by.
func (r *result) count(action, test string) {
	parts := strings.SplitN(test, "/", 3)
	if len(parts) < 3 {
		return
	}
	switch action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
	case "fail":
		r.failed = append(r.failed, parts[1]+"/"+parts[2])
	}
}

// printTable prints a line for each minor.
func printTable(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MINOR\tVERSION\tPASSED\tFAILED\tSKIPPED\tSECONDS\t")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%.0f\t%s\n",
			r.minor.Name, r.minor.Version, r.passed, len(r.failed), r.skipped, r.took.Seconds(), r.remark())
	}
	return table.Flush()
}

// remark says of a minor what numbers don't: which scripts failed, and why else it is not fine.
func (r result) remark() string {
	if len(r.failed) > 0 {
		return strings.Join(slices.Sorted(slices.Values(r.failed)), " ")
	}
	if r.err != nil {
		return firstLine(r.err.Error())
	}
	if r.passed == 0 {
		return "no script ran"
	}
	return ""
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
