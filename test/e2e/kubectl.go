package e2e

import (
	"errors"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// kubectl runs the real kubectl. Its output is there for stdout, stderr and cmp afterwards.
func kubectl(ts *testscript.TestScript, negated bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: [!] kubectl ARGS...")
	}
	if last := args[len(args)-1]; strings.HasPrefix(last, "&") {
		ts.Fatalf("kubectl: for the background write: exec kubectl ARGS... %s", last)
	}
	err := ts.Exec(scriptOf(ts).cluster.Program("kubectl"), args...)
	switch {
	case err == nil && negated:
		ts.Fatalf("kubectl succeeded, but had to fail")
	case err == nil:
	case !negated:
		ts.Fatalf("kubectl failed: %v", err)
	case !errors.As(err, new(*exec.ExitError)):
		// It did not run or was cut off: that is no refusal.
		ts.Fatalf("kubectl did not end by itself: %v", err)
	}
}
