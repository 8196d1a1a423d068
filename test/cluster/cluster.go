package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

// Options of Start; the zero value is useful.
type Options struct {
	// Programs is the folder of the built programs; empty: the cache folder, after building what it lacks.
	Programs string
	// Kubernetes is the minor whose programs are taken from the cache folder, such as v1.36; empty: the newest.
	Kubernetes string
	// Nodes is the number of nodes that kwok plays; 0 means 2.
	Nodes int
	// Log receives progress, line by line; nil discards it.
	Log io.Writer
	// Dir receives data and logs and is left behind by Stop; empty: a temporary folder that Stop removes.
	Dir string
	// ControllerManager are further flags of kube-controller-manager; they win over ours.
	ControllerManager []string
	// AuditUsers are users whose requests the API server writes into AuditLog, one line of JSON each; none: nobody's.
	AuditUsers []string
}

// Cluster is a running control plane.
type Cluster struct {
	programs string
	run      runDir
	progress *progress
	watchdog *watchdog
	servers  *servers
	order    []string // in which the programs of byName are started
	byName   map[string]program

	config     *rest.Config
	kubeconfig string
	client     kubernetes.Interface
	volumes    *volumeRecord

	stopOnce sync.Once
	stopErr  error
}

// program is what the cluster can stop and start. Both do nothing where nothing is to be done.
type program interface {
	start(ctx context.Context) error
	stop() error
}

// Start starts a control plane and returns once it can be used: nodes are Ready, the default namespace has its service
// account, and the storage classes "standard" (Immediate, Delete), "standard-wait" (WaitForFirstConsumer) and
// "standard-retain" (Retain) exist. The cluster lives until Stop or until this process is gone; ctx bounds only the
// start.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Programs == "" {
		built, err := builder.BuildMinor(ctx, opts.Kubernetes, opts.Log)
		if err != nil {
			return nil, fmt.Errorf("build the control plane: %w", err)
		}
		opts.Programs = built
	}
	programs, err := filepath.Abs(opts.Programs)
	if err != nil {
		return nil, fmt.Errorf("resolve the programs' folder: %w", err)
	}
	run, err := newRunDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{programs: programs, run: run, progress: newProgress(opts.Log)}
	if c.watchdog, err = startWatchdog(ctx, run); err != nil {
		return nil, err
	}
	if err := c.startAll(ctx, opts); err != nil {
		// Stop removes the logs: the error already carries what matters of them.
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) startAll(ctx context.Context, opts Options) error {
	began := time.Now()
	nodes := nodesOrDefault(opts.Nodes)
	var err error
	if c.servers, err = newServers(c.run, c.programs, c.watchdog.kill); err != nil {
		return err
	}
	if err := c.servers.audit(c.run, opts.AuditUsers); err != nil {
		return err
	}
	c.byName = map[string]program{"etcd": c.servers.etcd, "kube-apiserver": c.servers.api}
	c.order = []string{"etcd", "kube-apiserver"}
	for _, name := range c.order {
		if err := c.StartProgram(ctx, name); err != nil {
			return err
		}
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.addProcesses(opts.ControllerManager); err != nil {
		return err
	}
	c.volumes = recordVolumes(c.client, c.run.volumes())

	group, groupCtx := errgroup.WithContext(ctx)
	for _, name := range c.order[2:] {
		group.Go(func() error { return c.StartProgram(groupCtx, name) })
	}
	group.Go(func() error { return createObjects(groupCtx, c.client, nodes) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.awaitUsable(ctx, nodes); err != nil {
		return err
	}
	c.progress.printf("control plane usable after %s", seconds(time.Since(began)))
	return nil
}

func nodesOrDefault(nodes int) int {
	if nodes <= 0 {
		return 2
	}
	return nodes
}

// connect makes the admin's clients, once the API server runs.
func (c *Cluster) connect() error {
	var err error
	if c.config, err = c.UserConfig("admin", "system:masters"); err != nil {
		return err
	}
	if c.kubeconfig, err = c.writeKubeconfig("admin", c.config); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return fmt.Errorf("make the admin's client: %w", err)
	}
	return nil
}

// addProcesses adds the programs that are clients of the API server.
func (c *Cluster) addProcesses(controllerManager []string) error {
	in := flagInputs{
		kubeconfig:     c.kubeconfig,
		signingKey:     filepath.Join(c.run.certificates(), "sa-signer.key"),
		apiServerCA:    filepath.Join(c.run.certificates(), "apiserver-ca.crt"),
		volumePlugins:  c.run.in("volume-plugins"),
		stages:         stagesFile(c.programs),
		schedulerCerts: c.run.in("certificates", "scheduler"),
		managerCerts:   c.run.in("certificates", "controller-manager"),
		managerFlags:   controllerManager,
	}
	if err := os.WriteFile(in.apiServerCA, c.config.CAData, 0o600); err != nil {
		return fmt.Errorf("write the API server's CA: %w", err)
	}
	add := func(name string, serves bool, flags func(flagInputs, int) []string) {
		c.order = append(c.order, name)
		c.byName[name] = &process{
			name: name, program: c.Program(name), run: c.run, serves: serves,
			args: func(port int) []string { return flags(in, port) },
		}
	}
	add("kube-controller-manager", true, controllerManagerFlags)
	add("kube-scheduler", true, schedulerFlags)
	add("kwok", false, kwokFlags)
	return nil
}

// Stop ends the cluster. When it returns every process is gone, volumes are removed, and so is the folder unless
// Options.Dir named it. Further calls return the same error.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		var errs []error
		// Clients first: without them the API server has nothing to drain.
		var clients errgroup.Group
		for _, name := range c.order[min(2, len(c.order)):] {
			clients.Go(c.byName[name].stop)
		}
		errs = append(errs, clients.Wait())
		if c.volumes != nil {
			c.volumes.finish()
		}
		if c.servers != nil {
			errs = append(errs, c.servers.api.stop(), c.servers.etcd.stop())
		}
		errs = append(errs, c.watchdog.end())
		if err := errors.Join(errs...); err != nil {
			c.stopErr = fmt.Errorf("stop the control plane: %w", err)
		}
	})
	return c.stopErr
}

// StopProgram stops "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler" or "kwok", and returns when
// it is gone. Stopping a stopped program is no error.
func (c *Cluster) StopProgram(name string) error {
	p, found := c.byName[name]
	if !found {
		return fmt.Errorf("stop %q: no such program in the control plane", name)
	}
	return p.stop()
}

// StartProgram starts a program that StopProgram stopped, with the same data, certificates and, for the servers, the
// same address, and returns when it is healthy. Starting a running program is no error.
func (c *Cluster) StartProgram(ctx context.Context, name string) error {
	p, found := c.byName[name]
	if !found {
		return fmt.Errorf("start %q: no such program in the control plane", name)
	}
	began := time.Now()
	if err := p.start(ctx); err != nil {
		return err
	}
	c.progress.printf("%s ready after %s", name, seconds(time.Since(began)))
	return nil
}

// Config returns the configuration of a cluster admin (group system:masters), without client-side throttling to
// speak of. The caller owns the copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of the admin's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Client returns the admin's client.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Program returns the path of a built program, such as "kubectl" or "helm".
func (c *Cluster) Program(name string) string { return filepath.Join(c.programs, name) }

// Dir returns the folder of data and logs.
func (c *Cluster) Dir() string { return c.run.root }

// AuditLog returns the path of the record of the requests of Options.AuditUsers.
func (c *Cluster) AuditLog() string { return c.run.log("audit") }

// LogTail returns the last lines of a program's log.
func (c *Cluster) LogTail(name string, lines int) string { return c.run.logTail(name, lines) }
