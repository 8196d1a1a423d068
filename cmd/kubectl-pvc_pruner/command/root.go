package command

import (
	"context"
	"fmt"
	"io"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const long = `Shows what pvc-pruner would delete, when, and why it keeps the rest. Reading commands
need no pvc-pruner in the cluster and change nothing. The others set annotations, which
the API server and pvc-pruner's webhook judge.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 not allowed, 5 the API server
cannot be reached, 130 interrupted.`

// environment is what all commands share.
type environment struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	now   func() time.Time
	// connect and connectSnapshots make the clients; tests put fake ones here.
	connect          func() (kubernetes.Interface, error)
	connectSnapshots func() (snapshotclient.Interface, error)
}

// newEnvironment reaches the cluster that the usual flags of kubectl name.
func newEnvironment(streams genericiooptions.IOStreams) *environment {
	e := &environment{IOStreams: streams, flags: genericclioptions.NewConfigFlags(true), now: time.Now}
	e.flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.QPS, config.Burst = 50, 300 // as kubectl: one command may ask many namespaces
		config.WarningHandlerWithContext = nil
		config.WarningHandler = rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{
			Deduplicate: true, Color: printers.AllowsColorOutput(streams.ErrOut),
		})
		return config
	}
	e.connect = func() (kubernetes.Interface, error) {
		config, err := e.flags.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		return kubernetes.NewForConfig(config)
	}
	e.connectSnapshots = func() (snapshotclient.Interface, error) {
		config, err := e.flags.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		return snapshotclient.NewForConfig(config)
	}
	return e
}

// namespace is the one that the flags or the kubeconfig name.
func (e *environment) namespace() (string, error) {
	namespace, _, err := e.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// warn prints what the user should know and what does not stop the command.
func (e *environment) warn(format string, args ...any) {
	printers.NewWarningPrinter(e.ErrOut, printers.WarningPrinterOptions{Color: e.colours(e.ErrOut)}).Print(fmt.Sprintf(format, args...))
}

// colours says whether w is a terminal that wants them.
func (*environment) colours(w io.Writer) bool { return printers.AllowsColorOutput(w) }

// Run runs the command line args and returns the exit code. version is what --version says.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, version string) int {
	e := newEnvironment(streams)
	root := e.newRoot(version) //nolint:contextcheck // ExecuteContext hands it to each command
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(streams.ErrOut, "error:", explained(ctx, err))
	}
	return exitCode(ctx, err)
}

// newRoot assembles the commands.
func (e *environment) newRoot(version string) *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-pvc_pruner",
		Short:         "See what pvc-pruner deletes, keeps, and why",
		Long:          long,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl pvc-pruner"},
	}
	root.SetVersionTemplate("kubectl-pvc_pruner {{.Version}}\n")
	root.SetOut(e.Out)
	root.SetErr(e.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	e.flags.AddFlags(root.PersistentFlags())
	root.AddCommand(e.newPlan(), e.newExplain(), e.newEnable())
	root.AddCommand(e.newMarks()...)
	return root
}
