// Command cert-manager runs cert-manager's controllers and its cainjector in one process, for tests.
//
// cert-manager's own programs are modules that the Go proxy does not serve, and its images are not available where
// tests run; what its programs do is in the main module, and is composed here: issuers of the kinds CA and SelfSigned,
// Certificates, CertificateRequests, and the injection into webhook configurations. Its webhook, which only validates,
// is left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cert-manager/cert-manager/pkg/util/feature"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}

// run works until SIGTERM or until one part fails, which ends the other.
func run() error {
	gates := flag.String("feature-gates", "", "As for cert-manager's own programs: NAME=true|false,…")
	// controller-runtime registers --kubeconfig with the flag package when it is imported.
	flag.Parse()
	kubeconfig := flag.Lookup("kubeconfig").Value.String()
	if kubeconfig == "" || flag.NArg() > 0 {
		return errors.New("usage: cert-manager --kubeconfig=FILE [--feature-gates=NAME=true|false,…]")
	}
	if err := feature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := klog.Background()
	ctrl.SetLogger(log)
	ctx = klog.NewContext(ctx, log)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return issue(ctx, kubeconfig) })
	group.Go(func() error { return inject(ctx, kubeconfig) })
	return group.Wait()
}
