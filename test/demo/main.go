package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
	"github.com/pvc-pruner/pvc-pruner/test/install"
)

// startDeadline bounds the start, a first build of the control plane included.
const startDeadline = time.Hour

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1) //nolint:gocritic // stop only restores the signal handlers of a process that ends here
	}
}

// run starts what the story needs, tells it, and stops everything.
func run(ctx context.Context) (err error) {
	starting, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	plane, err := cluster.Start(starting, cluster.Options{Log: os.Stdout})
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	pruner, err := install.Start(starting, install.Options{Cluster: plane, Log: os.Stdout})
	if err != nil {
		return fmt.Errorf("start pvc-pruner: %w", err)
	}
	defer func() { err = errors.Join(err, pruner.Stop()) }()

	if err := tell(ctx, plane, pruner); err != nil {
		return err
	}
	if os.Getenv("KEEP") == "" {
		return nil
	}
	fmt.Printf(invitation, plane.Kubeconfig(), plane.Program("kubectl"), pruner.LogPath("pvc-pruner"))
	<-ctx.Done()
	return nil
}

const invitation = `
Everything keeps running until Ctrl-C. In another terminal:

  export KUBECONFIG=%s
  alias kubectl=%s
  kubectl scale statefulset db --replicas=4     # picks the kept claims up again
  kubectl scale statefulset db --replicas=2     # and lets two of them go
  kubectl get pvc --watch
  kubectl events --for statefulset/db
  kubectl annotate statefulset db pvc-pruner.io/paused=true

What pvc-pruner logs is in %s.
`
