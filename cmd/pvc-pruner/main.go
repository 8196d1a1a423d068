// Command pvc-pruner deletes the PersistentVolumeClaims that opted-in StatefulSets
// no longer use after they were scaled down.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
)

// version and commit are stamped at build time.
var version, commit = "dev", "unknown"

func main() {
	opts, err := parseOptions(os.Args[1:], os.LookupEnv, os.Stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pvc-pruner:", err)
		os.Exit(1)
	}
}
