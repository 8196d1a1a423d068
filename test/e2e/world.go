package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
	"github.com/pvc-pruner/pvc-pruner/test/install"
	"github.com/pvc-pruner/pvc-pruner/test/relay"
)

// world is what all scripts share: one control plane and one running pvc-pruner.
type world struct {
	cluster *cluster.Cluster
	pruner  *install.Instance
	client  kubernetes.Interface
	objects dynamic.Interface
	mapper  meta.RESTMapper
	// plugins is the folder with the plugin of kubectl.
	plugins string
	// minor of Kubernetes that the API server says it is: 37 for 1.37.
	minor int
	// relay is between the pruner and the API server; the interceptor decides for it.
	relay       *relay.Relay
	interceptor *interceptor
}

// startWorld starts the control plane, of the minor of Kubernetes that E2E_KUBERNETES names, and pvc-pruner on it; data
// and logs go to dir.
func startWorld(ctx context.Context, dir string, log io.Writer) (*world, error) {
	plane, err := cluster.Start(ctx, cluster.Options{Kubernetes: os.Getenv("E2E_KUBERNETES"), Dir: dir, Log: log})
	if err != nil {
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	w := &world{cluster: plane, plugins: filepath.Join(dir, "plugins")}
	if err := w.connect(); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	if err := w.readVersion(log); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	if err := install.BuildPlugin(ctx, w.plugins); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	w.pruner, err = install.Start(ctx, install.Options{
		Cluster: plane, Split: true, Log: log,
		// Most scripts run in a cluster that does not know VolumeSnapshots, as many are.
		Flags: []string{"--snapshots"}, Values: []string{"snapshots.enabled=true"},
		PrunerServer: w.relay.URL(), PrunerAuthority: w.relay.Authority(),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("install pvc-pruner: %w", err), w.stop())
	}
	return w, nil
}

func (w *world) connect() error {
	config := w.cluster.Config()
	config.QPS = -1 // a client-side limit would cut the last look before a deadline off, and its finding with it
	var err error
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	if w.objects, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("make the dynamic client: %w", err)
	}
	kinds := memory.NewMemCacheClient(w.client.Discovery())
	w.mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(kinds), kinds, nil)
	w.relay, err = relay.Start(config, func(next http.Handler) http.Handler {
		w.interceptor = newInterceptor(next)
		return w.interceptor
	})
	return err
}

// readVersion asks the API server for its version. What was asked for is no proof of what runs.
func (w *world) readVersion(log io.Writer) error {
	version, err := w.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("read the API server's version: %w", err)
	}
	if w.minor, err = strconv.Atoi(strings.TrimSuffix(version.Minor, "+")); err != nil {
		return fmt.Errorf("read the API server's version: %w", err)
	}
	fmt.Fprintf(log, "the scripts run on Kubernetes %s\n", version.GitVersion)
	return nil
}

func (w *world) stop() error {
	var errs []error
	if w.pruner != nil {
		errs = append(errs, w.pruner.Stop())
	}
	if w.relay != nil {
		w.relay.Close()
	}
	return errors.Join(append(errs, w.cluster.Stop())...)
}

// repair brings back what a serial script stopped, and a pruner without flags that the script gave it.
func (w *world) repair(flagged bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w.interceptor.heal()
	if flagged {
		if err := w.pruner.StopPruner(ctx); err != nil {
			return err
		}
	}
	return errors.Join(w.cluster.StartProgram(ctx, controllerManager), w.pruner.WebhookUp(ctx), w.pruner.StartPruner(ctx))
}
