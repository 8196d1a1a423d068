package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pvc-pruner/pvc-pruner/certs"
	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

const usage = `pvc-pruner deletes the PersistentVolumeClaims that opted-in StatefulSets no longer
use after they were scaled down. Opt in with the annotation pvc-pruner.io/enabled: "true".

One program does two jobs: every replica answers admission requests (--webhook), and
the elected leader prunes (--pruner). Durations take the units w, d, h, m, s and ms,
such as 10m or 7d. Each flag can be given as an environment variable instead: in upper
case, with _ for -, after PVC_PRUNER_, such as PVC_PRUNER_DELAY. A flag wins over it.

Flags:
`

// options are the program's settings, checked.
type options struct {
	kubeconfig           string
	namespace            string
	watchNamespaces      []string
	check                string
	webhook              bool
	pruner               bool
	leaderElect          bool
	lease                string
	webhookPort          int
	webhookConfiguration string
	certDir              string
	selfSigned           bool
	caSecret             string
	caDuration           time.Duration
	certDuration         time.Duration
	certHosts            []string
	metricsAddress       string
	healthAddress        string
	defaults             policy.Controls
	fenceMargin          time.Duration
	considerWorkloads    bool
	workers              int
	qps                  float32
	burst                int
	logLevel             string
	logFormat            string
}

// controlValue is a flag that takes what an annotation takes, and sets its default.
type controlValue struct {
	key      string
	text     string
	defaults *policy.Controls
}

func (c *controlValue) String() string { return c.text }
func (c *controlValue) Type() string {
	if c.key == policy.KeyPaused || c.key == policy.KeyDryRun {
		return "bool"
	}
	return "value"
}

func (c *controlValue) Set(s string) error {
	c.text = s
	return c.defaults.SetDefault(c.key, s)
}

// parseOptions reads flags, and for those not given the environment. For --help it
// prints the usage to out and returns pflag.ErrHelp.
func parseOptions(args []string, env func(string) (string, bool), out io.Writer) (options, error) {
	o := options{defaults: policy.DefaultControls(policy.DefaultDelay)}
	fs := pflag.NewFlagSet("pvc-pruner", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.SetOutput(io.Discard)
	fs.Usage = func() { fmt.Fprint(out, usage, fs.FlagUsagesWrapped(100)) }
	o.register(fs)
	fs.StringVar(&o.check, "check", "", "`namespace` in which to check an installation, and then end: makes a StatefulSet there whose pods never start, scales it in dry runs, says what the webhook answered, and removes it")
	showVersion := fs.Bool("version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if *showVersion {
		fmt.Fprintf(out, "pvc-pruner %s (commit %s)\n", version, commit)
		return o, pflag.ErrHelp
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: there are only flags, see --help", fs.Arg(0))
	}
	if err := fromEnvironment(fs, env); err != nil {
		return o, err
	}
	o.defaults.IgnoreWorkloads = !o.considerWorkloads
	return o, o.validate()
}

func (o *options) register(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` to reach the cluster with; empty: KUBECONFIG, else the pod's service account")
	fs.StringVar(&o.namespace, "namespace", ownNamespace(), "pvc-pruner's own `namespace`, where the lease is")
	fs.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil, "`namespaces` whose StatefulSets are pruned, separated by commas; none: all. --webhook-configuration must select the same")
	fs.BoolVar(&o.webhook, "webhook", true, "answer admission requests")
	fs.BoolVar(&o.pruner, "pruner", true, "prune, if elected (see --leader-elect)")
	fs.BoolVar(&o.leaderElect, "leader-elect", true, "prune only while holding the lease; false only if no other pruner can run")
	fs.StringVar(&o.lease, "lease", "pvc-pruner", "`name` of the lease in --namespace; the same for all replicas of one installation")
	fs.IntVar(&o.webhookPort, "webhook-port", 9443, "`port` for admission requests, TLS")
	fs.StringVar(&o.webhookConfiguration, "webhook-configuration", "pvc-pruner", "`name` of our MutatingWebhookConfiguration and ValidatingWebhookConfiguration; ready means that their caBundle verifies our certificate")
	fs.StringVar(&o.certDir, "cert-dir", filepath.Join(os.TempDir(), "pvc-pruner-certs"), "`folder` with tls.crt and tls.key, read again when they change")
	fs.BoolVar(&o.selfSigned, "self-signed-cert", false, "make a certificate in --cert-dir if there is no valid one, and write its CA into --webhook-configuration; for running outside a cluster, one replica")
	fs.StringVar(&o.caSecret, "ca-secret", "", "`name` of the Secret in --namespace with a certificate authority that all replicas share; it is made where there is none, certificates are made in memory instead of read from --cert-dir, and the CA bundle of --webhook-configuration is kept right")
	fs.DurationVar(&o.caDuration, "ca-duration", certs.CADuration, "life of the certificate authority of --ca-secret, which is replaced when two thirds are over; at least three times --cert-duration")
	fs.DurationVar(&o.certDuration, "cert-duration", certs.CertDuration, "life of the certificates that the authority of --ca-secret signs, which are replaced when two thirds are over; at least 1m")
	fs.StringSliceVar(&o.certHosts, "cert-hosts", []string{"localhost", "127.0.0.1"}, "`names` and addresses that the certificate of --self-signed-cert, or of --ca-secret (names only), is valid for")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "`address` of /metrics, plain HTTP; 0 turns it off")
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz, plain HTTP; 0 turns it off")
	fs.DurationVar(&o.fenceMargin, "fence-margin", policy.FenceMargin, "nothing is deleted in this last part of the minute for which a scale-up can be held; raise it where clocks differ by more than a few seconds; 5s to 50s")
	fs.BoolVar(&o.considerWorkloads, "consider-workloads", true, "keep claims that the pod template of a CronJob, Job, Deployment, DaemonSet, ReplicaSet or ReplicationController names; false where pvc-pruner has no right to list those")
	fs.BoolVar(&o.defaults.Snapshots, "snapshots", false, "take VolumeSnapshots for StatefulSets that ask for them, and wait for those that others take; needs the right to list and create VolumeSnapshots")
	fs.IntVar(&o.workers, "workers", 16, "`number` of StatefulSets pruned at once")
	fs.Float32Var(&o.qps, "kube-api-qps", 50, "requests per second to the API server, on average")
	fs.IntVar(&o.burst, "kube-api-burst", 100, "requests to the API server at once; at least --kube-api-qps")
	o.registerDefaults(fs)
	fs.StringVar(&o.logLevel, "log-level", "info", "one of debug, info, warn, error")
	fs.StringVar(&o.logFormat, "log-format", "json", "one of json, console")
}

// registerDefaults registers a flag for each control that may have a cluster-wide default.
func (o *options) registerDefaults(fs *pflag.FlagSet) {
	const without = "; for StatefulSets without that annotation"
	for _, d := range []struct{ key, value, usage string }{
		{policy.KeyDelay, policy.FormatDelay(policy.DefaultDelay), "undo window, counted from the last change of replicas, such as `10m` or 7d; 0s prunes as soon as the pods are gone" + without},
		{policy.KeyScope, string(policy.ScopeScaledDown), "which unused claims may go: `scaled-down`, those of ordinals that were scaled down, or all above the range" + without},
		{policy.KeyScaleToZero, "keep", "`keep` everything while replicas is 0, or prune" + without},
		{policy.KeyStaleVolumes, "reuse", "`reuse` old volumes in a scale-up, or forbid that until they are pruned, without an undo window" + without},
		{policy.KeyTemplates, "", "`names` of the volumeClaimTemplates that may be pruned, separated by commas; none: all" + without},
		{policy.KeySnapshotClass, "", "`name` of the VolumeSnapshotClass of which a snapshot is taken before a claim is deleted; none: no snapshot" + without},
		{policy.KeyPaused, "false", "hold everything" + without},
		{policy.KeyDryRun, "false", "plan and report, and delete nothing, whatever annotations say"},
	} {
		f := fs.VarPF(&controlValue{key: d.key, text: d.value, defaults: &o.defaults}, policy.Short(d.key), "", d.usage)
		if d.value == "false" {
			f.NoOptDefVal = "true"
		}
	}
}

// fromEnvironment sets the flags that the command line did not.
func fromEnvironment(fs *pflag.FlagSet, env func(string) (string, bool)) error {
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		name := "PVC_PRUNER_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := env(name)
		if !ok || f.Changed {
			return
		}
		if err := fs.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %w", name, err))
		}
	})
	return errors.Join(errs...)
}

// validate checks the settings one by one and against each other.
func (o *options) validate() error {
	_, levelErr := zapcore.ParseLevel(o.logLevel)
	return firstError(
		check(o.webhook || o.pruner, "--webhook and --pruner are both false: nothing to do"),
		check(len(validation.IsDNS1123Label(o.namespace)) == 0, "--namespace: %q is not the name of a namespace", o.namespace),
		checkNamespaces("--watch-namespaces", o.watchNamespaces),
		check(o.check == "" || len(validation.IsDNS1123Label(o.check)) == 0, "--check: %q is not the name of a namespace", o.check),
		check(len(validation.IsDNS1123Subdomain(o.lease)) == 0, "--lease: %q is not the name of a lease", o.lease),
		check(o.webhookPort > 0 && o.webhookPort < 1<<16, "--webhook-port: %d is not a port, accepted are 1 to 65535", o.webhookPort),
		check(len(validation.IsDNS1123Subdomain(o.webhookConfiguration)) == 0, "--webhook-configuration: %q is not the name of an object", o.webhookConfiguration),
		o.validateCertificates(),
		check(o.defaults.SnapshotClass == "" || o.defaults.Snapshots, "--snapshot-class needs --snapshots"),
		checkAddress("--metrics-bind-address", o.metricsAddress),
		checkAddress("--health-probe-bind-address", o.healthAddress),
		check(o.fenceMargin >= 5*time.Second && o.fenceMargin <= 50*time.Second, "--fence-margin: %s is out of range, accepted are 5s to 50s", o.fenceMargin),
		check(o.workers >= 1 && o.workers <= 1000, "--workers: %d is out of range, accepted are 1 to 1000", o.workers),
		check(o.qps > 0, "--kube-api-qps: %v is not accepted, it must be above 0", o.qps),
		check(float32(o.burst) >= o.qps, "--kube-api-burst: %d is below --kube-api-qps (%v)", o.burst, o.qps),
		check(levelErr == nil, "--log-level: %q is not accepted, use debug, info, warn or error", o.logLevel),
		check(o.logFormat == "json" || o.logFormat == "console", "--log-format: %q is not accepted, use json or console", o.logFormat),
	)
}

func (o *options) validateCertificates() error {
	return firstError(
		check(o.certDir != "", "--cert-dir: a folder is needed"),
		check(!o.selfSigned || len(o.certHosts) > 0, "--self-signed-cert needs at least one of --cert-hosts"),
		check(o.caSecret == "" || len(o.certHosts) > 0, "--ca-secret needs at least one of --cert-hosts"),
		check(o.caSecret == "" || len(validation.IsDNS1123Subdomain(o.caSecret)) == 0, "--ca-secret: %q is not the name of a Secret", o.caSecret),
		check(o.certDuration >= time.Minute, "--cert-duration: %s is not accepted, it must be at least 1m", o.certDuration),
		check(o.caDuration/3 >= o.certDuration, "--ca-duration: %s is not accepted, it must be at least three times --cert-duration (%s)", o.caDuration, o.certDuration),
		check(o.caSecret == "" || !o.selfSigned, "--ca-secret and --self-signed-cert exclude each other"),
	)
}

// check is an error unless ok.
func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func checkNamespaces(flag string, names []string) error {
	for _, name := range names {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("%s: %q is not the name of a namespace", flag, name)
		}
	}
	return nil
}

func checkAddress(flag, address string) error {
	if address == "0" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%s: %q is not accepted, use host:port, :port, or 0 to turn it off", flag, address)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ownNamespace is where the pod runs, as the kubelet tells every pod.
func ownNamespace() string {
	data, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return "pvc-pruner"
	}
	return strings.TrimSpace(string(data))
}
