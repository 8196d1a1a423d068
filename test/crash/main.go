package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
	"github.com/pvc-pruner/pvc-pruner/test/install"
)

func main() {
	short := flag.Bool("short", false, "every third request only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *short); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1) //nolint:gocritic // stop only restores the signal handlers of a process that ends here
	}
}

func run(ctx context.Context, short bool) (err error) {
	plane, err := cluster.Start(ctx, cluster.Options{Log: os.Stdout})
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	faults, server, err := startProxy(plane.Config())
	if err != nil {
		return fmt.Errorf("start the proxy: %w", err)
	}
	defer server.Close()
	pruner, err := install.Start(ctx, install.Options{
		Cluster: plane, Log: os.Stdout, Split: true, PrunerServer: server.URL(), PrunerAuthority: server.Authority(),
		Flags: []string{"--leader-elect=false"}, // a killed process cannot give its lease back, and waiting for that shows nothing
	})
	if err != nil {
		return fmt.Errorf("start pvc-pruner: %w", err)
	}
	defer func() { err = errors.Join(err, pruner.Stop()) }()
	faults.kill = pruner.KillPruner
	config := plane.Config()
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	l := &laboratory{client: client, proxy: faults, pruner: pruner, step: 1}
	if short {
		l.step = 3
	}
	return l.experiment(ctx)
}
