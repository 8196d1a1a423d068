// Command control-plane builds the control plane's programs where they are missing, and prints their folder on
// standard output; progress goes to standard error. Arguments name further modules below test/tools, such as
// certmanager, whose programs are built too; their folders are printed on further lines.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	modules := []builder.Module{builder.ControlPlane}
	for _, name := range os.Args[1:] {
		modules = append(modules, builder.Module(name))
	}
	for _, module := range modules {
		folder, err := builder.Build(ctx, module, os.Stderr)
		if err != nil {
			return err
		}
		fmt.Println(folder)
	}
	return nil
}
