package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// parallelScripts is how many scripts run at once where -parallel does not say otherwise: they mostly wait, and two
// cores bear the rest.
const parallelScripts = 8

const (
	// serialWorlds is on how many control planes the serial scripts run, on each of them one by one: they wait even
	// more, and one after the other would take twenty minutes.
	serialWorlds = 3
	// worthAnother is how many scripts are worth the start of another control plane.
	worthAnother = 6
)

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
		runSerial(t, w, scripts.serial)
	})
}

// runSerial runs the scripts on the world w and on further ones.
func runSerial(t *testing.T, w *world, scripts []string) {
	t.Helper()
	worlds := []*world{w}
	for len(worlds) < serialWorlds && len(scripts) >= worthAnother*(len(worlds)+1) {
		worlds = append(worlds, start(t))
	}
	var running sync.WaitGroup
	for i, world := range worlds {
		var share []string // neighbours go to different worlds: scripts that take long have names alike
		for j := i; j < len(scripts); j += len(worlds) {
			share = append(share, scripts[j])
		}
		if len(share) > 0 {
			running.Go(func() { testscript.RunT(oneByOne{t}, world.params(share, true)) })
		}
	}
	running.Wait()
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
