package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// parallelScripts is how many scripts run at once where -parallel does not say otherwise: they mostly wait, and two
// cores bear the rest.
const parallelScripts = 8

// startDeadline bounds the start of the control plane and of pvc-pruner, not the build of the control plane's programs
// on a machine that has none: make control-plane does that beforehand.
const startDeadline = 15 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(parallelScripts)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

// TestScripts runs the scripts of testdata, or those of the folder E2E_SCRIPTS.
func TestScripts(t *testing.T) {
	dir := os.Getenv("E2E_SCRIPTS")
	if dir == "" {
		dir = "testdata"
	}
	scripts, err := findScripts(dir)
	if err != nil {
		t.Fatal(err)
	}
	var mustFail []string
	if dir == "testdata" {
		if mustFail, err = scriptsIn(filepath.Join(dir, "must-fail")); err != nil {
			t.Fatal(err)
		}
	}

	w := start(t)
	t.Run("parallel", func(t *testing.T) {
		if len(scripts.parallel) > 0 {
			testscript.Run(t, w.params(scripts.parallel, false))
		}
		for _, file := range mustFail {
			t.Run("must-fail/"+filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				checkMustFail(t, w, file)
			})
		}
	})
	t.Run("serial", func(t *testing.T) {
		if len(scripts.serial) > 0 {
			testscript.RunT(oneByOne{t}, w.params(scripts.serial, true))
		}
	})
}

// start starts what the scripts need, and stops it when they are done.
func start(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "pvc-pruner-e2e-") //nolint:usetesting // the logs of a failed run stay
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startDeadline)
	defer cancel()
	w, err := startWorld(ctx, dir, os.Stderr)
	if err != nil {
		t.Fatalf("%v\nlogs are in %s", err, dir)
	}
	t.Cleanup(func() {
		keep(w)
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("logs are in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return w
}

// keep leaves everything running until Ctrl-C, where the user asked for it.
func keep(w *world) {
	if os.Getenv("E2E_KEEP") == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Fprintf(os.Stderr, "the control plane keeps running until Ctrl-C:\n\n  export KUBECONFIG=%s\n  %s get namespaces\n\nlogs are in %s\n",
		w.cluster.Kubeconfig(), w.cluster.Program("kubectl"), w.cluster.Dir())
	<-ctx.Done()
}
