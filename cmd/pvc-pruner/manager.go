package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/pvc-pruner/pvc-pruner/certs"
	"github.com/pvc-pruner/pvc-pruner/pruner"
	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
	"github.com/pvc-pruner/pvc-pruner/webhook"
)

const (
	// startDeadline bounds the questions to the API server before the manager starts.
	startDeadline = 30 * time.Second
	// shutdownDeadline is how long work in flight may take after SIGTERM: one DELETE of at
	// most 5 s, the wait until what was deleted is gone, the fence's end. The kubelet's
	// default grace period is 30 s.
	shutdownDeadline = 28 * time.Second
)

// run serves until the context ends, or checks an installation.
func run(ctx context.Context, o options) error {
	if o.check != "" {
		return checkInstallation(ctx, o, os.Stdout)
	}
	log, err := newLogger(o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	config, err := restConfig(o)
	if err != nil {
		return fmt.Errorf("load kubeconfig: %w", err)
	}
	mgr, err := assemble(ctx, config, o)
	if err != nil {
		return err
	}
	log.Info("Starting", "version", version, "commit", commit, "webhook", o.webhook, "pruner", o.pruner, "delay", policy.FormatDelay(o.defaults.Delay), "defaults", o.defaults.DefaultsText())
	return mgr.Start(ctx)
}

// assemble makes the manager of all that runs.
func assemble(ctx context.Context, config *rest.Config, o options) (ctrl.Manager, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	managed, err := managedCertificate(config, clientset, o)
	if err != nil {
		return nil, err
	}
	mgr, err := newManager(config, o, managed)
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	if o.pruner {
		if err := setupPruner(mgr, config, clientset, o); err != nil {
			return nil, err
		}
	}
	if o.webhook {
		unthrottled := rest.CopyConfig(config)
		unthrottled.QPS = -1 // an answer must not wait for the pruner's work
		answering, err := kubernetes.NewForConfig(unthrottled)
		if err != nil {
			return nil, fmt.Errorf("create client: %w", err)
		}
		if err := setupWebhook(ctx, mgr, answering, o); err != nil {
			return nil, err
		}
	}
	if err := addProbes(ctx, mgr, clientset, o); err != nil {
		return nil, fmt.Errorf("add probes: %w", err)
	}
	return mgr, nil
}

func setupPruner(mgr ctrl.Manager, config *rest.Config, clientset kubernetes.Interface, o options) error {
	opts := pruner.Options{
		Client: clientset, Defaults: o.defaults, ConsiderWorkloads: o.considerWorkloads,
		FenceMargin: o.fenceMargin, Workers: o.workers, Registry: metrics.Registry,
	}
	if o.defaults.Snapshots {
		client, err := snapshotclient.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("create client for VolumeSnapshots: %w", err)
		}
		opts.Snapshots = client
	}
	p, err := pruner.New(mgr, opts)
	if err != nil {
		return fmt.Errorf("set up pruner: %w", err)
	}
	if !o.leaderElect {
		return mgr.Add(manager.RunnableFunc(p.Run))
	}
	lock, err := leaderelection.NewResourceLock(config, mgr, leaderelection.Options{
		LeaderElection: true, LeaderElectionID: o.lease, LeaderElectionNamespace: o.namespace, RenewDeadline: renewDeadline,
	})
	if err != nil {
		return fmt.Errorf("set up leader election: %w", err)
	}
	return mgr.Add(&election{lock: lock, work: p.Run})
}

func restConfig(o options) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = "pvc-pruner/" + version
	return config, nil
}

// managedCertificate is nil where certificates come from files.
func managedCertificate(config *rest.Config, clientset kubernetes.Interface, o options) (*certs.Managed, error) {
	if !o.webhook || o.caSecret == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	return certs.NewManaged(certs.ManagedOptions{
		Config: config, Client: clientset, Namespace: o.namespace, Secret: o.caSecret,
		Configuration: o.webhookConfiguration, Hosts: o.certHosts, CADuration: o.caDuration, CertDuration: o.certDuration,
	})
}

func newManager(config *rest.Config, o options, managed *certs.Managed) (ctrl.Manager, error) {
	shutdown := shutdownDeadline
	server := ctrlwebhook.Options{Port: o.webhookPort, CertDir: o.certDir}
	if managed != nil {
		server.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = managed.GetCertificate }}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: clientgoscheme.Scheme,
		Cache: cache.Options{
			// Nothing but StatefulSets is ever cached; a read of another kind is an error.
			ReaderFailOnMissingInformer: true,
			DefaultNamespaces:           watched(o.watchNamespaces),
			ByObject:                    map[client.Object]cache.ByObject{&appsv1.StatefulSet{}: {Transform: pruner.StripStatefulSet}},
		},
		GracefulShutdownTimeout: &shutdown,
		HealthProbeBindAddress:  o.healthAddress,
		Metrics:                 metricsserver.Options{BindAddress: o.metricsAddress},
		WebhookServer:           ctrlwebhook.NewServer(server),
	})
	if err == nil && managed != nil {
		err = mgr.Add(managed)
	}
	return mgr, err
}

// watched is nil, which means all namespaces, where none is named.
func watched(namespaces []string) map[string]cache.Config {
	var configs map[string]cache.Config
	for _, name := range namespaces {
		if configs == nil {
			configs = map[string]cache.Config{}
		}
		configs[name] = cache.Config{}
	}
	return configs
}

// setupWebhook makes the certificate if asked to, and registers the endpoints.
func setupWebhook(ctx context.Context, mgr ctrl.Manager, clientset kubernetes.Interface, o options) error {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	if o.selfSigned {
		ca, err := certs.EnsureSelfSigned(o.certDir, o.certHosts)
		if err != nil {
			return fmt.Errorf("make certificate: %w", err)
		}
		if err := certs.InjectCABundle(ctx, clientset, o.webhookConfiguration, ca); err != nil {
			return fmt.Errorf("inject certificate: %w", err)
		}
	}
	if err := webhook.RefuseSecond(ctx, clientset, o.webhookConfiguration, o.watchNamespaces); err != nil {
		return err
	}
	// Who we are decides whose bookkeeping is taken as it is.
	self, err := clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask the API server for our own user name: %w", err)
	}
	if _, err := mgr.GetCache().GetInformer(ctx, &appsv1.StatefulSet{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch StatefulSets: %w", err)
	}
	if err := webhook.Setup(mgr.GetWebhookServer(), webhook.Options{
		Reader: mgr.GetCache(), Client: clientset, Self: self.Status.UserInfo.Username,
		Defaults: o.defaults, Clock: time.Now, Registry: metrics.Registry,
	}); err != nil {
		return fmt.Errorf("set up webhook: %w", err)
	}
	return nil
}

// addProbes: alive is that the process answers; ready is that the cache is synced
// and that the API server can verify the certificate we serve.
func addProbes(ctx context.Context, mgr ctrl.Manager, clientset kubernetes.Interface, o options) error {
	errs := []error{
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("cache", func(req *http.Request) error {
			ctx, cancel := context.WithTimeout(req.Context(), time.Second)
			defer cancel()
			if !mgr.GetCache().WaitForCacheSync(ctx) {
				return errors.New("the cache of StatefulSets is not synced")
			}
			return nil
		}),
	}
	if o.webhook {
		address := net.JoinHostPort("127.0.0.1", fmt.Sprint(o.webhookPort))
		errs = append(errs,
			mgr.AddReadyzCheck("certificate", certs.Ready(clientset, o.webhookConfiguration, address)),
			metrics.Registry.Register(certs.NewExpiration(ctx, address)),
		)
	}
	return errors.Join(errs...)
}
