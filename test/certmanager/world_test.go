package certmanager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cmclient "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/test/certmanager"
	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

// patience bounds every wait; seconds are usual, a loaded machine takes more.
const patience = 2 * time.Minute

// world is the control plane that all rules share.
type world struct {
	plane        *cluster.Cluster
	client       kubernetes.Interface
	certificates cmclient.Interface
	program      string // pvc-pruner
	manager      *certmanager.Process
}

func newWorld(t *testing.T) *world {
	t.Helper()
	plane, err := cluster.Start(t.Context(), cluster.Options{Nodes: 1, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	config := plane.Config()
	config.QPS = -1 // a client-side limit would cut the last look before a deadline off
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	certificates, err := cmclient.NewForConfig(config)
	must(t, err)
	w := &world{plane: plane, client: client, certificates: certificates, program: filepath.Join(plane.Dir(), "pvc-pruner")}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", w.program, "../../cmd/pvc-pruner").CombinedOutput(); err != nil {
		t.Fatalf("build pvc-pruner: %v\n%s", err, out)
	}
	return w
}

// startCertManager starts cert-manager until the end of this part of the test.
func (w *world) startCertManager(t *testing.T, flags ...string) {
	t.Helper()
	manager, err := certmanager.Start(t.Context(), w.plane, os.Stderr, flags...)
	must(t, err)
	w.manager = manager
	t.Cleanup(func() {
		if err := manager.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// await fails the test when check does not hold in time, or when cert-manager is gone.
func (w *world) await(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.manager.Await(ctx, what, check); err != nil {
		t.Fatal(err)
	}
}

// helm runs the real helm and returns what it prints on standard error.
func (w *world) helm(ctx context.Context, args ...string) (stderr string, err error) {
	cmd := exec.CommandContext(ctx, w.plane.Program("helm"), append(args, "--kubeconfig", w.plane.Kubeconfig())...)
	// The user's own plugins and repositories have no say.
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+w.plane.Dir(), "HELM_CONFIG_HOME="+w.plane.Dir(), "HELM_DATA_HOME="+w.plane.Dir())
	if _, err = cmd.Output(); err == nil {
		return "", nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		stderr = string(exit.Stderr)
	}
	return stderr, fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, stderr)
}
