package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

// startDeadline bounds the start of the program, including the time until a lease of a killed one has run out.
const startDeadline = 2 * time.Minute

// Options of Start. Cluster is required.
type Options struct {
	Cluster *cluster.Cluster
	// Dir receives the program, its certificate and its logs; empty: a folder in that of the cluster.
	Dir string
	// Flags are added to those that every process gets.
	Flags []string
	// Values are further values of the chart, each KEY=VALUE.
	Values []string
	// Split runs the webhook and the pruner as a process each, so that one can be stopped while the other goes on, as
	// it would with several replicas. Otherwise one process runs both.
	Split bool
	// Log receives progress, line by line; nil discards it.
	Log io.Writer
	// PrunerServer is the URL at which a split pruner reaches the API server; empty: the
	// API server's own. For proxies that inject faults.
	PrunerServer string
	// PrunerAuthority verifies PrunerServer, in PEM.
	PrunerAuthority []byte
	// Tags are build tags for the program, such as nofence.
	Tags string
	// Namespace is that of pvc-pruner itself; empty: pvc-pruner.
	Namespace string
}

// Names of the processes, which are those of their logs too.
const (
	both          = "pvc-pruner"
	webhookName   = "webhook"
	prunerName    = "pruner"
	defaultPlace  = "pvc-pruner"
	probeDeadline = time.Minute
)

// Instance is a running pvc-pruner.
type Instance struct {
	options    Options
	program    string
	kubeconfig string
	// prunerKubeconfig is that of a split pruner.
	prunerKubeconfig string
	chart            chart
	proxy            *proxy

	mu        sync.Mutex
	processes map[string]*process
}

// Start builds and installs pvc-pruner, starts it, and returns when admission calls reach it and it holds the lease.
// It lives until Stop or until the cluster is stopped; ctx bounds only the start.
func Start(ctx context.Context, options Options) (*Instance, error) {
	if options.Namespace == "" {
		options.Namespace = release
	}
	if options.Dir == "" {
		options.Dir = filepath.Join(options.Cluster.Dir(), defaultPlace)
	}
	if options.Log == nil {
		options.Log = io.Discard
	}
	if err := os.MkdirAll(filepath.Join(options.Dir, "certificates"), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of pvc-pruner: %w", err)
	}
	i := &Instance{options: options, processes: map[string]*process{}}
	if err := i.install(ctx); err != nil {
		return nil, errors.Join(err, i.Stop())
	}
	if err := i.startAll(ctx); err != nil {
		return nil, errors.Join(err, i.Stop())
	}
	return i, nil
}

// install builds the program and applies the chart.
func (i *Instance) install(ctx context.Context) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	i.progress("building pvc-pruner")
	if i.program, err = build(ctx, root, i.options.Dir, "pvc-pruner", i.options.Tags); err != nil {
		return err
	}
	if i.proxy, err = newProxy(ctx); err != nil {
		return err
	}
	plane, namespace := i.options.Cluster, i.options.Namespace
	if i.chart, err = render(ctx, plane, root, namespace, append([]string{"webhook.url=https://" + i.proxy.address}, i.options.Values...)); err != nil {
		return err
	}
	if err := i.chart.apply(ctx, plane, i.options.Dir, namespace); err != nil {
		return err
	}
	if i.kubeconfig, err = plane.ServiceAccountKubeconfig(ctx, namespace, i.chart.serviceAccount); err != nil {
		return err
	}
	i.prunerKubeconfig = i.kubeconfig
	if i.options.PrunerServer != "" {
		i.prunerKubeconfig, err = redirect(i.kubeconfig, i.options.PrunerServer, i.options.PrunerAuthority)
	}
	return err
}

func (i *Instance) startAll(ctx context.Context) error {
	began := time.Now()
	names := []string{both}
	if i.options.Split {
		names = []string{webhookName, prunerName}
	}
	for _, name := range names {
		if err := i.start(ctx, name, nil); err != nil {
			return err
		}
	}
	if err := i.awaitAdmission(ctx); err != nil {
		return err
	}
	i.progress("pvc-pruner ready after %.1f s", time.Since(began).Seconds())
	return nil
}

func (i *Instance) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(i.options.Log, format+"\n", args...) // progress that nobody can read hinders nobody
}

// start starts one process and waits until it does its work. It does nothing when the process runs.
func (i *Instance) start(ctx context.Context, name string, extra []string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.processes[name] != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	p := &process{name: name, log: i.LogPath(name)}
	flags, err := i.flags(ctx, p)
	if err != nil {
		return err
	}
	if err := launch(ctx, i.options.Cluster, p, i.program, append(flags, extra...)); err != nil {
		return err
	}
	if err := i.awaitWork(ctx, p); err != nil {
		return errors.Join(err, p.kill())
	}
	i.processes[name] = p
	return nil
}

func (i *Instance) awaitWork(ctx context.Context, p *process) error {
	if err := p.await(ctx, "it was ready", p.ready); err != nil {
		return err
	}
	if p.name == webhookName || slices.Contains(i.options.Flags, "--leader-elect=false") {
		return nil
	}
	return p.await(ctx, "it led", p.leads)
}

// flags of one process, on ports that are free now.
func (i *Instance) flags(ctx context.Context, p *process) ([]string, error) {
	addresses, err := freeAddresses(ctx, 3)
	if err != nil {
		return nil, err
	}
	p.health, p.metrics = addresses[0], addresses[1]
	kubeconfig := i.kubeconfig
	if p.name == prunerName {
		kubeconfig = i.prunerKubeconfig
	}
	flags := []string{
		"--kubeconfig=" + kubeconfig,
		"--namespace=" + i.options.Namespace,
		"--health-probe-bind-address=" + p.health,
		"--metrics-bind-address=" + p.metrics,
		fmt.Sprintf("--webhook=%t", p.name != prunerName),
		fmt.Sprintf("--pruner=%t", p.name != webhookName),
	}
	if p.name == prunerName {
		return append(append(flags, "--leader-elect"), i.options.Flags...), nil
	}
	i.proxy.target(addresses[2])
	flags = append(flags,
		"--leader-elect",
		"--cert-dir="+filepath.Join(i.options.Dir, "certificates"),
		"--self-signed-cert",
		"--webhook-configuration="+i.chart.webhooks,
		"--webhook-port="+port(addresses[2]),
	)
	return append(flags, i.options.Flags...), nil
}

// Stop ends every process in order. The chart stays applied.
func (i *Instance) Stop() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var errs []error
	for name, p := range i.processes {
		errs = append(errs, p.stop())
		delete(i.processes, name)
	}
	if i.proxy != nil {
		errs = append(errs, i.proxy.down())
	}
	return errors.Join(errs...)
}

// StopPruner ends the pruner in order, while admission goes on. It does nothing when the pruner is stopped.
func (i *Instance) StopPruner(_ context.Context) error {
	return i.end((*process).stop)
}

// KillPruner ends the pruner without a warning: it cannot give its lease back.
func (i *Instance) KillPruner() error {
	return i.end((*process).kill)
}

func (i *Instance) end(how func(*process) error) error {
	if !i.options.Split {
		return errors.New("the pruner and the webhook are one process: start with Split to stop one of them")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	p := i.processes[prunerName]
	if p == nil {
		return nil
	}
	delete(i.processes, prunerName)
	return how(p)
}

// StartPruner starts the pruner again, with flags added for this life, and returns when it holds the lease. It does
// nothing when the pruner runs.
func (i *Instance) StartPruner(ctx context.Context, flags ...string) error {
	if !i.options.Split {
		return errors.New("the pruner and the webhook are one process: start with Split to start one of them")
	}
	return i.start(ctx, prunerName, flags)
}

// Metrics returns the metrics of all processes, as they are scraped.
func (i *Instance) Metrics(ctx context.Context) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all strings.Builder
	for _, p := range i.processes {
		text, err := fetch(ctx, p.metricsURL())
		if err != nil {
			return "", err
		}
		all.WriteString(text)
	}
	return all.String(), nil
}

// MetricsURLs are where the metrics of each process are scraped.
func (i *Instance) MetricsURLs() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var urls []string
	for _, p := range i.processes {
		urls = append(urls, p.metricsURL())
	}
	return urls
}

// LogPath returns the path of a process's log: "webhook" and "pruner" when split, else "pvc-pruner".
func (i *Instance) LogPath(name string) string {
	return filepath.Join(i.options.Dir, name+".log")
}

// LogTail returns the last lines of a process's log.
func (i *Instance) LogTail(name string, lines int) string { return logTail(i.LogPath(name), lines) }
