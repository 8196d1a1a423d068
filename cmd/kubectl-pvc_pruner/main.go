// Command kubectl-pvc_pruner is a plugin of kubectl: kubectl pvc-pruner shows what
// pvc-pruner would delete and why, with or without pvc-pruner in the cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/pvc-pruner/pvc-pruner/cmd/kubectl-pvc_pruner/command"
)

// version and commit are stamped at build time.
var version, commit = "dev", "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	code := command.Run(ctx, os.Args[1:], streams, version+" (commit "+commit+")")
	stop()
	os.Exit(code)
}
