// Command control-plane builds the control plane's programs where they are missing, and prints their folder on
// standard output; progress goes to standard error. Arguments name further modules below test/tools, whose programs are
// built too; their folders are printed on further lines.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

func main() {
	kubernetes := flag.String("kubernetes", "", "minor of Kubernetes, such as v1.36; empty: the newest")
	flag.Parse()
	if err := run(*kubernetes, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(1)
	}
}

func run(kubernetes string, modules []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	folder, err := builder.BuildMinor(ctx, kubernetes, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Println(folder)
	for _, module := range modules {
		if folder, err = builder.Build(ctx, builder.Module(module), os.Stderr); err != nil {
			return err
		}
		fmt.Println(folder)
	}
	return nil
}
