package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// environment is what os.LookupEnv would find.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// byDefault are the settings of a process that was told nothing, with changes.
func byDefault(change func(*options)) options {
	o := options{
		namespace: ownNamespace(), webhook: true, pruner: true, leaderElect: true, lease: "pvc-pruner",
		webhookPort: 9443, webhookConfiguration: "pvc-pruner",
		certDir: filepath.Join(os.TempDir(), "pvc-pruner-certs"), certHosts: []string{"localhost", "127.0.0.1"}, caDuration: 8760 * time.Hour, certDuration: 168 * time.Hour,
		metricsAddress: ":8080", healthAddress: ":8081", defaults: policy.DefaultControls(10 * time.Minute), fenceMargin: 15 * time.Second, considerWorkloads: true,
		workers: 16, qps: 50, burst: 100, logLevel: "info", logFormat: "json",
	}
	change(&o)
	return o
}

func TestOptions(t *testing.T) {
	type args []string
	for name, tt := range map[string]struct {
		args args
		env  environment
		want options
	}{
		"nothing":             {nil, nil, byDefault(func(*options) {})},
		"a delay in days":     {args{"--delay=7d"}, nil, byDefault(func(o *options) { o.defaults.Delay = 168 * time.Hour })},
		"no delay":            {args{"--delay", "0s"}, nil, byDefault(func(o *options) { o.defaults.Delay = 0 })},
		"one of the two jobs": {args{"--webhook=false"}, nil, byDefault(func(o *options) { o.webhook = false })},
		"addresses turned off": {args{"--metrics-bind-address=0", "--health-probe-bind-address=0"}, nil, byDefault(func(o *options) {
			o.metricsAddress, o.healthAddress = "0", "0"
		})},
		"everything": {
			args{
				"--scope=all", "--scale-to-zero=prune", "--stale-volumes=forbid", "--templates=data,wal", "--snapshot-class=csi", "--snapshots", "--consider-workloads=false", "--paused", "--dry-run",
				"--kubeconfig=/k", "--namespace=ours", "--delay=36h", "--pruner=false", "--leader-elect=false", "--webhook-port=10250",
				"--webhook-configuration=a.b", "--cert-dir=/c", "--self-signed-cert", "--cert-hosts=a,b", "--metrics-bind-address=127.0.0.1:1",
				"--health-probe-bind-address=[::1]:2", "--fence-margin=20s", "--workers=1", "--kube-api-qps=0.5", "--kube-api-burst=1", "--log-level=debug", "--log-format=console",
				"--watch-namespaces=t,u", "--check=t", "--lease=l", "--ca-duration=3m", "--cert-duration=1m",
			},
			nil,
			options{
				kubeconfig: "/k", namespace: "ours", watchNamespaces: []string{"t", "u"}, check: "t", lease: "l", caDuration: 3 * time.Minute, certDuration: time.Minute,
				defaults: policy.Controls{
					Delay: 36 * time.Hour, Scope: policy.ScopeAll, PruneAtZero: true, ForbidStale: true, Templates: []string{"data", "wal"},
					SnapshotClass: "csi", Snapshots: true, IgnoreWorkloads: true, Paused: true, DryRun: true,
				}, webhook: true, webhookPort: 10250,
				webhookConfiguration: "a.b", certDir: "/c", selfSigned: true, certHosts: []string{"a", "b"}, metricsAddress: "127.0.0.1:1",
				healthAddress: "[::1]:2", fenceMargin: 20 * time.Second, workers: 1, qps: 0.5, burst: 1, logLevel: "debug", logFormat: "console",
			},
		},
		"the environment, where there is no flag": {
			nil,
			environment{"PVC_PRUNER_DELAY": "2w", "PVC_PRUNER_LEADER_ELECT": "false", "PVC_PRUNER_CERT_HOSTS": "a,b", "PVC_PRUNER_KUBE_API_QPS": "7"},
			byDefault(func(o *options) {
				o.defaults.Delay, o.leaderElect, o.certHosts, o.qps = 336*time.Hour, false, []string{"a", "b"}, 7
			}),
		},
		"a flag wins over the environment": {
			args{"--delay=1m", "--cert-hosts=c"},
			environment{"PVC_PRUNER_DELAY": "2w", "PVC_PRUNER_CERT_HOSTS": "a,b"},
			byDefault(func(o *options) { o.defaults.Delay, o.certHosts = time.Minute, []string{"c"} }),
		},
		"a flag wins over a value that could not be read": {
			args{"--delay=1m"}, environment{"PVC_PRUNER_DELAY": "soon"}, byDefault(func(o *options) { o.defaults.Delay = time.Minute }),
		},
		"a flag that says the default wins as well": {
			args{"--delay=10m"}, environment{"PVC_PRUNER_DELAY": "2w"}, byDefault(func(*options) {}),
		},
		"other people's variables": {
			nil, environment{"DELAY": "1m", "pvc_pruner_delay": "1m", "PVC_PRUNER_PORT": "tcp://10.0.0.1:443"}, byDefault(func(*options) {}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseOptions(tt.args, tt.env.lookup, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadOptionIsOneClearLine(t *testing.T) {
	const delays = `accepted are durations such as "0s", "30m", "36h", "1h30m", "7d" or "2w" (units w d h m s ms), from 0s up to 3650d`
	type args []string
	for name, tt := range map[string]struct {
		args args
		env  environment
		want string
	}{
		"an unknown flag":           {args{"--dely=1m"}, nil, "unknown flag: --dely"},
		"an argument":               {args{"start"}, nil, `unexpected argument "start": there are only flags, see --help`},
		"a delay without unit":      {args{"--delay=10"}, nil, `invalid argument "10" for "--delay" flag: ` + delays},
		"a negative delay":          {args{"--delay=-1m"}, nil, `invalid argument "-1m" for "--delay" flag: ` + delays},
		"a delay of centuries":      {args{"--delay=200000d"}, nil, `invalid argument "200000d" for "--delay" flag: ` + delays},
		"a delay without value":     {args{"--delay"}, nil, "flag needs an argument: --delay"},
		"a class without snapshots": {args{"--snapshot-class=csi"}, nil, "--snapshot-class needs --snapshots"},
		"an odd scope":              {args{"--scope=every"}, nil, `invalid argument "every" for "--scope" flag: accepted are "scaled-down" and "all"`},
		"odd templates":             {args{"--templates=data, wal"}, nil, `invalid argument "data, wal" for "--templates" flag: accepted are names of volumeClaimTemplates, each once, separated by commas without spaces, such as "data,wal"`},
		"an odd dry run":            {args{"--dry-run=yes"}, nil, `invalid argument "yes" for "--dry-run" flag: accepted are "false" and "true"`},
		"a switch that is neither":  {args{"--webhook=maybe"}, nil, `invalid argument "maybe" for "--webhook" flag: must be true or false`},
		"nothing to do":             {args{"--webhook=false", "--pruner=false"}, nil, "--webhook and --pruner are both false: nothing to do"},
		"no namespace":              {args{"--namespace="}, nil, `--namespace: "" is not the name of a namespace`},
		"an odd namespace":          {args{"--namespace=Our Own"}, nil, `--namespace: "Our Own" is not the name of a namespace`},
		"an odd namespace to watch": {args{"--watch-namespaces=t,*"}, nil, `--watch-namespaces: "*" is not the name of a namespace`},
		"an odd namespace to check": {args{"--check=*"}, nil, `--check: "*" is not the name of a namespace`},
		"an odd lease":              {args{"--lease=A"}, nil, `--lease: "A" is not the name of a lease`},
		"too short a certificate":   {args{"--cert-duration=59s"}, nil, "--cert-duration: 59s is not accepted, it must be at least 1m"},
		"too short an authority":    {args{"--ca-duration=10m", "--cert-duration=4m"}, nil, "--ca-duration: 10m0s is not accepted, it must be at least three times --cert-duration (4m0s)"},
		"no port":                   {args{"--webhook-port=0"}, nil, "--webhook-port: 0 is not a port, accepted are 1 to 65535"},
		"a port too high":           {args{"--webhook-port=65536"}, nil, "--webhook-port: 65536 is not a port, accepted are 1 to 65535"},
		"an odd configuration":      {args{"--webhook-configuration=A_B"}, nil, `--webhook-configuration: "A_B" is not the name of an object`},
		"no folder":                 {args{"--cert-dir="}, nil, "--cert-dir: a folder is needed"},
		"no host":                   {args{"--self-signed-cert", "--cert-hosts="}, nil, "--self-signed-cert needs at least one of --cert-hosts"},
		"an address without port":   {args{"--metrics-bind-address=localhost"}, nil, `--metrics-bind-address: "localhost" is not accepted, use host:port, :port, or 0 to turn it off`},
		"no address":                {args{"--health-probe-bind-address="}, nil, `--health-probe-bind-address: "" is not accepted, use host:port, :port, or 0 to turn it off`},
		"a margin too short":        {args{"--fence-margin=4s"}, nil, "--fence-margin: 4s is out of range, accepted are 5s to 50s"},
		"a margin too long":         {args{"--fence-margin=51s"}, nil, "--fence-margin: 51s is out of range, accepted are 5s to 50s"},
		"no worker":                 {args{"--workers=0"}, nil, "--workers: 0 is out of range, accepted are 1 to 1000"},
		"too many workers":          {args{"--workers=1001"}, nil, "--workers: 1001 is out of range, accepted are 1 to 1000"},
		"no rate":                   {args{"--kube-api-qps=0"}, nil, "--kube-api-qps: 0 is not accepted, it must be above 0"},
		"a rate that is no number":  {args{"--kube-api-qps=NaN"}, nil, "--kube-api-qps: NaN is not accepted, it must be above 0"},
		"a burst below the rate":    {args{"--kube-api-burst=49"}, nil, "--kube-api-burst: 49 is below --kube-api-qps (50)"},
		"an odd level":              {args{"--log-level=loud"}, nil, `--log-level: "loud" is not accepted, use debug, info, warn or error`},
		"an odd format":             {args{"--log-format=xml"}, nil, `--log-format: "xml" is not accepted, use json or console`},
		"an odd variable":           {nil, environment{"PVC_PRUNER_DELAY": "soon"}, `environment variable PVC_PRUNER_DELAY: invalid argument "soon" for "--delay" flag: ` + delays},
		"a variable out of range":   {nil, environment{"PVC_PRUNER_WORKERS": "0"}, "--workers: 0 is out of range, accepted are 1 to 1000"},
		"an empty variable":         {nil, environment{"PVC_PRUNER_WORKERS": ""}, `environment variable PVC_PRUNER_WORKERS: invalid argument "" for "--workers" flag: must be an integer`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			_, err := parseOptions(tt.args, tt.env.lookup, &out)
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" || strings.Contains(err.Error(), "\n") || out.Len() > 0 {
				t.Errorf("printed %q (-want +got):\n%s", out.String(), diff)
			}
		})
	}
}

func TestHelpExplainsUnitsRelationsAndEveryFlag(t *testing.T) {
	var out bytes.Buffer
	if _, err := parseOptions([]string{"--help"}, environment{}.lookup, &out); !errors.Is(err, pflag.ErrHelp) {
		t.Fatalf("error %v", err)
	}
	help := out.String()
	text := strings.Join(strings.Fields(help), " ") // whatever the width
	for _, want := range []string{
		"units w, d, h, m, s and ms", "PVC_PRUNER_DELAY", "A flag wins over it", `pvc-pruner.io/enabled: "true"`,
		"at least --kube-api-qps", "see --leader-elect", "(default 10m)", "--version",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not told: %s\n%s", want, help)
		}
	}
	o := options{}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.register(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(help, "--"+f.Name) || f.Usage == "" {
			t.Errorf("--%s is not explained", f.Name)
		}
	})
	for line := range strings.Lines(help) {
		if len(line) > 101 {
			t.Errorf("too wide: %s", line)
		}
	}
}

func TestVersionIsPrintedWithoutLookingAtTheRest(t *testing.T) {
	var out bytes.Buffer
	_, err := parseOptions([]string{"--version", "--workers=0"}, environment{"PVC_PRUNER_DELAY": "soon"}.lookup, &out)
	if !errors.Is(err, pflag.ErrHelp) || out.String() != "pvc-pruner dev (commit unknown)\n" {
		t.Errorf("printed %q, error %v", out.String(), err)
	}
}
